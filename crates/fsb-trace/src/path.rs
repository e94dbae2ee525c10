//! Names below the root, without dots and double slashes.

/// Returns the absolute path of a path and the directory that it begins in. Resolves `.` and `..` by text.
pub fn normal(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let begins = if path.starts_with(b"/") { &b""[..] } else { directory };
    for part in begins.split(|byte| *byte == b'/').chain(path.split(|byte| *byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut whole = Vec::with_capacity(directory.len() + path.len() + 2);
    for part in parts {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    if whole.is_empty() { b"/".to_vec() } else { whole }
}

/// Returns the name below `root` of an absolute path. Both are normalized.
pub(crate) fn below<'p>(root: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    if root == b"/" {
        return path.strip_prefix(b"/");
    }
    match path.strip_prefix(root)? {
        b"" => Some(b""),
        rest => rest.strip_prefix(b"/"),
    }
}

/// Returns whether a name stays below the root in any tree whose links do not lead out: it is empty, or of parts that
/// are neither empty nor `.` nor `..`.
pub fn is_inside(name: &[u8]) -> bool {
    let fine = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0) && part.len() <= 255;
    name.len() < 4096 && (name.is_empty() || name.split(|byte| *byte == b'/').all(fine))
}

/// Returns whether the text of a symbolic link can be created: it leads only further down from the link's directory.
pub(crate) fn leads_down(text: &[u8]) -> bool {
    let fine = |part: &[u8]| part != b"..";
    !text.is_empty() && !text.starts_with(b"/") && !text.contains(&0) && text.split(|byte| *byte == b'/').all(fine)
}

/// Returns the directory of a name.
pub(crate) fn parent(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b'/').map_or(b"", |at| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_normal_by_text() {
        let of =
            |directory: &str, path: &str| String::from_utf8(normal(directory.as_bytes(), path.as_bytes())).unwrap();
        assert_eq!(of("/srv/data", "a//b/./c"), "/srv/data/a/b/c");
        assert_eq!(of("/srv/data", "../../../../etc"), "/etc");
        assert_eq!(of("/srv", "/x/../y/"), "/y");
        assert_eq!(of("/", "."), "/");
    }

    #[test]
    fn names_below_a_root_are_told_from_neighbours() {
        assert_eq!(below(b"/srv", b"/srv/a"), Some(&b"a"[..]));
        assert_eq!(below(b"/srv", b"/srv"), Some(&b""[..]));
        assert_eq!(below(b"/srv", b"/srv2/a"), None);
        assert_eq!(below(b"/", b"/etc/x"), Some(&b"etc/x"[..]));
    }

    #[test]
    fn paths_that_leave_the_root_are_found() {
        for inside in ["", "a", "a/b", "a/..b"] {
            assert!(is_inside(inside.as_bytes()), "{inside}");
        }
        for outside in ["/a", "..", "a/../b", "a//b", "a/", ".", "a\0b"] {
            assert!(!is_inside(outside.as_bytes()), "{outside}");
        }
        assert!(leads_down(b"a/b") && !leads_down(b"/etc") && !leads_down(b"a/../../b") && !leads_down(b""));
        assert_eq!((parent(b"a/b/c"), parent(b"a")), (&b"a/b"[..], &b""[..]));
    }
}
