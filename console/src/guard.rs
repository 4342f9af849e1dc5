//! Which requests are answered at all. The server is on 127.0.0.1, which every page that a browser shows may ask
//! too, so it looks at who asks. Pure.

use http::{HeaderMap, Method, StatusCode, header};
use serde::Serialize;
use subtle::ConstantTimeEq;

/// The header with the token of whoever was shown the page.
pub(crate) const TOKEN: &str = "x-dynashard-token";

/// Why a request was not answered as asked.
#[derive(Debug, Serialize)]
pub(crate) struct Failed {
    #[serde(skip)]
    pub(crate) status: StatusCode,
    pub(crate) code: String,
    pub(crate) detail: String,
}

impl Failed {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), detail: detail.into() }
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }
}

/// Refuses what another site sends, and by which it could read or act: a name that was made to lead here, a page of
/// another origin, and whatever changes or costs something without the token.
pub(crate) fn check(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    port: u16,
    token: &str,
) -> Result<(), Failed> {
    let text =
        |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_ours(host, port) || hosts.next().is_some() {
        let why = "this name does not belong to the console; open http://127.0.0.1 with its port";
        return Err(Failed::new(StatusCode::MISDIRECTED_REQUEST, "foreign_host", why));
    }
    let foreign = || {
        let why = "the request comes from a page of another origin; use the console's own page";
        Err(Failed::new(StatusCode::FORBIDDEN, "foreign_origin", why))
    };
    if let Some(origin) = text(header::ORIGIN)
        && !origin.strip_prefix("http://").is_some_and(|host| is_ours(host, port))
    {
        return foreign();
    }
    let is_api = path.starts_with("/api/");
    if let Some(site) = headers.get("sec-fetch-site") {
        // A link on another page may lead here, and nothing else of it.
        let is_foreign = !matches!(site.as_bytes(), b"same-origin" | b"none");
        let navigates = headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
        if is_foreign && (is_api || !navigates) {
            return foreign();
        }
    }
    if *method == Method::POST {
        let given = headers.get(TOKEN).map(http::HeaderValue::as_bytes).unwrap_or_default();
        if !bool::from(given.ct_eq(token.as_bytes())) {
            let why = "the token of the page is missing or of an earlier console; reload the page";
            return Err(Failed::new(StatusCode::FORBIDDEN, "bad_token", why));
        }
        let media_type = text(header::CONTENT_TYPE).unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/json") {
            let why = "the body is to be application/json";
            return Err(Failed::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                why,
            ));
        }
    }
    Ok(())
}

/// Whether a name, with its port, is one of this server's.
fn is_ours(host: &str, port: u16) -> bool {
    // Browsers leave out the port that is usual.
    let (name, given) = host.rsplit_once(':').unwrap_or((host, "80"));
    given.parse() == Ok(port) && matches!(name, "127.0.0.1" | "localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN_TEXT: &str = "0123456789abcdef";

    fn answer(method: &Method, path: &str, given: &[(&'static str, &str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, value.parse().expect("a value"));
        }
        check(method, path, &headers, 9_003, TOKEN_TEXT)
            .map_or_else(|failed| failed.code, |()| "ok".to_owned())
    }

    #[test]
    fn a_name_that_was_made_to_lead_here_is_not_answered() {
        let get = |host: &str| answer(&Method::GET, "/", &[("host", host)]);
        assert_eq!([get("127.0.0.1:9003"), get("localhost:9003")], ["ok", "ok"]);
        for host in
            ["evil.example:9003", "127.0.0.1", "127.0.0.1:9004", "127.0.0.1.evil.example:9003", ""]
        {
            assert_eq!(get(host), "foreign_host", "{host}");
        }
        assert_eq!(answer(&Method::GET, "/", &[]), "foreign_host");
        let two = [("host", "127.0.0.1:9003"), ("host", "evil.example:9003")];
        assert_eq!(answer(&Method::GET, "/", &two), "foreign_host");
    }

    #[test]
    fn other_origins_may_link_here_and_nothing_else() {
        let host = ("host", "127.0.0.1:9003");
        let get = |path, more: &[(&'static str, &str)]| {
            answer(&Method::GET, path, &[&[host], more].concat())
        };
        for origin in
            ["http://evil.example", "null", "https://127.0.0.1:9003", "http://127.0.0.1:80"]
        {
            assert_eq!(get("/api/stream", &[("origin", origin)]), "foreign_origin", "{origin}");
        }
        assert_eq!(get("/api/stream", &[("origin", "http://127.0.0.1:9003")]), "ok");
        let cross = ("sec-fetch-site", "cross-site");
        assert_eq!(get("/api/stream", &[cross]), "foreign_origin");
        assert_eq!(get("/", &[cross]), "foreign_origin", "a frame or a script");
        let link = [cross, ("sec-fetch-mode", "navigate")];
        assert_eq!([get("/", &link), get("/api/stream", &link)], ["ok", "foreign_origin"]);
        assert_eq!(get("/", &[("sec-fetch-site", "none")]), "ok");
        assert_eq!(get("/api/stream", &[("sec-fetch-site", "same-site")]), "foreign_origin");
    }

    #[test]
    fn what_costs_or_changes_something_needs_the_token() {
        let post = |more: &[(&'static str, &str)]| {
            let host = ("host", "127.0.0.1:9003");
            answer(&Method::POST, "/api/scale", &[&[host], more].concat())
        };
        let json = ("content-type", "application/json; charset=utf-8");
        assert_eq!(post(&[json, (TOKEN, TOKEN_TEXT)]), "ok");
        assert_eq!(post(&[json]), "bad_token");
        assert_eq!(post(&[json, (TOKEN, "")]), "bad_token");
        assert_eq!(post(&[json, (TOKEN, "0123456789abcdeF")]), "bad_token");
        // Forms need no permission of the server before they are sent.
        for form in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", ""] {
            let of_form = [("content-type", form), (TOKEN, TOKEN_TEXT)];
            assert_eq!(post(&of_form), "unsupported_media_type", "{form}");
        }
    }
}
