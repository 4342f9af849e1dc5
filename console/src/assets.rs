//! The files of the page, which are in the binary.

use crate::palette;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Where the page has the token.
const TOKEN_PLACE: &str = "{{token}}";

const FILES: [(&str, &str, &str); 11] = [
    ("/style.css", CSS, include_str!("../page/style.css")),
    ("/icon.svg", SVG, include_str!("../page/icon.svg")),
    ("/main.js", SCRIPT, include_str!("../page/main.js")),
    ("/dom.js", SCRIPT, include_str!("../page/dom.js")),
    ("/format.js", SCRIPT, include_str!("../page/format.js")),
    ("/charts.js", SCRIPT, include_str!("../page/charts.js")),
    ("/server.js", SCRIPT, include_str!("../page/server.js")),
    ("/overview.js", SCRIPT, include_str!("../page/overview.js")),
    ("/collection.js", SCRIPT, include_str!("../page/collection.js")),
    ("/decisions.js", SCRIPT, include_str!("../page/decisions.js")),
    ("/scale.js", SCRIPT, include_str!("../page/scale.js")),
];

/// The media type and the text of the file under this path. The page itself carries the token.
pub(crate) fn asset(path: &str, token: &str) -> Option<(&'static str, String)> {
    Some(match path {
        "/" => (HTML, include_str!("../page/index.html").replace(TOKEN_PLACE, token)),
        "/palette.css" => (CSS, palette::css()),
        _ => {
            let (_, media_type, text) = FILES.iter().find(|(name, _, _)| *name == path)?;
            (media_type, (*text).to_owned())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a page may weigh, in bytes.
    const MOST_BYTES: usize = 200_000;

    #[test]
    fn the_page_weighs_little_and_asks_nobody_else() {
        let paths = FILES.iter().map(|(path, _, _)| *path).chain(["/", "/palette.css"]);
        let files = paths.map(|path| (path, asset(path, "token").expect("a file").1));
        let files = files.collect::<Vec<_>>();
        let bytes = files.iter().map(|(_, file)| file.len()).sum::<usize>();
        assert!(bytes <= MOST_BYTES, "{bytes}");
        for (path, file) in files {
            let text = file.replace("http://www.w3.org/", "");
            for elsewhere in ["http://", "https://", "eval(", "innerHTML", " style=\""] {
                assert!(!text.contains(elsewhere), "{path} has {elsewhere}");
            }
        }
    }

    #[test]
    fn the_page_carries_the_token_of_this_console() {
        let page = asset("/", "cafe").expect("the page").1;
        assert!(page.contains("content=\"cafe\"") && !page.contains(TOKEN_PLACE));
        assert_eq!(asset("/main.rs", "cafe"), None);
        assert_eq!(asset("/../Cargo.toml", "cafe"), None);
    }
}
