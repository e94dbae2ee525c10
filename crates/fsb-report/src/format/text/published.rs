//! Ours, then theirs, where a run was made to stand beside published values.

use super::lines::Lines;
use crate::run::published::{Published, PublishedLayout, PublishedRow};
use crate::screen::{Column, Names, Part};
use crate::view::View;

pub(super) fn tables_of(screen: &mut Lines, view: &View<'_>, names: &Names) {
    let Some(published) = view.published.filter(|published| published.first) else { return };
    screen.gap();
    screen.say(&published.title, "", "");
    match published.layout {
        PublishedLayout::Tests => tests(screen, view, names, published),
        PublishedLayout::Configurations => configurations(screen, view, published),
    }
}

/// A row a test, a column a file system.
fn tests(screen: &mut Lines, view: &View<'_>, names: &Names, published: &Published) {
    let labels: Vec<&str> = published.rows.iter().map(|row| row.workload.as_str()).collect();
    let column = |title: &str, values: &dyn Fn(&PublishedRow) -> Option<f64>| {
        let part = |row: &PublishedRow| Part::Value(row.show(values(row)), String::new());
        Column::new(title, published.rows.iter().map(|row| (part(row), None)).collect())
    };
    let ours: Vec<Column> =
        (0..view.names.len()).map(|target| column(names.shown(target), &|row| row.ours[target])).collect();
    let theirs: Vec<Column> =
        published.file_systems.iter().enumerate().map(|(at, name)| column(name, &|row| row.theirs[at])).collect();
    screen.columns(&labels, &ours);
    screen.gap();
    screen.say("Published:", "", "");
    screen.columns(&labels, &theirs);
}

/// A row a file system, a column a test: ours above theirs.
fn configurations(screen: &mut Lines, view: &View<'_>, published: &Published) {
    let targets: Vec<&str> = view.names.iter().map(String::as_str).collect();
    let (theirs, ours): (Vec<_>, Vec<_>) =
        published.configurations(&targets).into_iter().partition(|configuration| configuration.published);
    for (part, title) in [(ours, None), (theirs, Some("Published:"))] {
        if let Some(title) = title {
            screen.gap();
            screen.say(title, "", "");
        }
        let labels: Vec<&str> = part.iter().map(|configuration| configuration.name).collect();
        let column = |at: usize, row: &PublishedRow| {
            let value = |values: &[String]| Part::Value(values[at].clone(), String::new());
            Column::new(&row.workload, part.iter().map(|one| (value(&one.values), None)).collect())
        };
        let columns: Vec<Column> = published.rows.iter().enumerate().map(|(at, row)| column(at, row)).collect();
        screen.columns(&labels, &columns);
    }
}
