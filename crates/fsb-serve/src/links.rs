//! Addresses of pages. All addresses are relative, so that pages work below any path, and as files.

/// The addresses, relative to one page.
#[derive(Debug, Clone)]
pub(crate) struct Links {
    /// The way up from the page to the root: `./`, `../`.
    root: String,
    /// Whether the page is a file: it has a name with an extension, and no form.
    pub(crate) is_file: bool,
    /// Whether pages can start runs.
    pub(crate) allows_runs: bool,
}

impl Links {
    /// Returns the addresses for a page that is `depth` directories below the root.
    pub(crate) fn new(depth: usize, is_file: bool) -> Links {
        let root = if depth == 0 {
            "./".to_owned()
        } else {
            "../".repeat(depth)
        };
        Links {
            root,
            is_file,
            allows_runs: false,
        }
    }

    /// Returns the addresses with those of the pages that start runs, or without them.
    pub(crate) fn allowing_runs(self, allows_runs: bool) -> Links {
        Links {
            allows_runs,
            ..self
        }
    }

    fn page(&self, path: &str) -> String {
        format!(
            "{}{path}{}",
            self.root,
            if self.is_file { ".html" } else { "" }
        )
    }

    pub(crate) fn home(&self) -> String {
        if self.is_file {
            self.page("index")
        } else {
            self.root.clone()
        }
    }

    pub(crate) fn style(&self) -> String {
        format!("{}style.css", self.root)
    }

    pub(crate) fn all_series(&self) -> String {
        self.page("series")
    }

    pub(crate) fn series(&self, id: &str) -> String {
        self.page(&format!("series/{id}"))
    }

    pub(crate) fn all_runs(&self) -> String {
        self.page("runs")
    }

    pub(crate) fn run(&self, id: &str) -> String {
        self.page(&format!("run/{id}"))
    }

    pub(crate) fn report(&self, id: &str) -> String {
        self.page(&format!("run/{id}/report"))
    }

    pub(crate) fn matrix(&self) -> String {
        self.page("matrix")
    }

    /// Returns the address of the form that chooses runs to compare. The form needs a server.
    pub(crate) fn compare_form(&self) -> String {
        format!("{}compare", self.root)
    }

    pub(crate) fn compare_report(&self, before: &str, after: &str) -> String {
        format!("{}compare/report?a={before}&b={after}", self.root)
    }

    /// Returns the address of the JSON of a page: `api/series/ID`.
    pub(crate) fn api(&self, path: &str) -> String {
        format!(
            "{}api/{path}{}",
            self.root,
            if self.is_file { ".json" } else { "" }
        )
    }

    pub(crate) fn new_run(&self) -> String {
        format!("{}new", self.root)
    }

    pub(crate) fn live(&self) -> String {
        format!("{}live", self.root)
    }

    pub(crate) fn description(&self) -> String {
        format!("{}api/openapi.json", self.root)
    }
}
