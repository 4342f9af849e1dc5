//! The pages name what exists: links lead somewhere, and the index lists every page and names tests that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Where pages are: the root of the repository and these directories.
const PAGES_IN: &[&str] = &["", "docs", "data", "events"];

/// A newcomer reads the README in a few minutes; everything else has a page of its own.
const README_LINES: usize = 200;
const README_WORDS: usize = 1_200;

/// The words of docs/ that people write, without code blocks and what is written from the code.
const DOCS_WORDS: usize = 35_000;

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    for page in pages() {
        for link in links(&prose(&page)) {
            let (path, heading) = link.split_once('#').unwrap_or((link.as_str(), ""));
            let directory = page.parent().expect("a directory");
            let target = if path.is_empty() { page.clone() } else { directory.join(path) };
            assert!(target.exists(), "{} links to {link}, which is missing", page.display());
            let found = heading.is_empty() || anchors(&prose(&target)).contains(heading);
            assert!(found, "{} links to {link}, a heading that is missing", page.display());
        }
    }
}

#[test]
fn the_index_and_the_book_list_every_page_of_the_directory_in_one_order() {
    let pages_of = |list: &str| {
        let mut pages = links(&read(list));
        pages.retain(|page| page != "README.md" && !page.contains('/') && is_page(Path::new(page)));
        pages
    };
    let listed = pages_of("docs/SUMMARY.md");
    assert_eq!(pages_of("docs/README.md"), listed);
    let there = of_docs().filter_map(|page| Some(page.file_name()?.to_str()?.to_owned()));
    let lists = ["README.md", "SUMMARY.md"].map(str::to_owned);
    let expected = there.filter(|page| !lists.contains(page)).collect::<BTreeSet<_>>();
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
}

/// The last column of the index's table has a test and its file, each in backticks.
#[test]
fn the_index_names_tests_that_exist() {
    let index = read("docs/README.md");
    let named = index.lines().filter_map(|row| {
        let (test, file) = row.split_once("` in `")?;
        Some((test.rsplit('`').next()?, file.split('`').next()?))
    });
    let named = named.collect::<Vec<_>>();
    assert!(!named.is_empty(), "the index names no test");
    for (test, file) in named {
        let is_there = read(file).contains(&format!("fn {test}("));
        assert!(is_there, "docs/README.md names {test}, which {file} lacks");
    }
}

#[test]
fn the_pages_stay_short() {
    let words = of_docs().map(|page| by_hand(&page)).sum::<usize>();
    assert!(words <= DOCS_WORDS, "{words} words are written by hand");
}

#[test]
fn the_readme_stays_short() {
    let readme = read("README.md");
    let (lines, words) = (readme.lines().count(), readme.split_whitespace().count());
    assert!(lines <= README_LINES && words <= README_WORDS, "{lines} lines, {words} words");
}

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn pages() -> Vec<PathBuf> {
    let entries = PAGES_IN
        .iter()
        .flat_map(|directory| fs::read_dir(Path::new(ROOT).join(directory)).expect("a directory"));
    let files = entries.map(|entry| entry.expect("an entry").path());
    files.filter(|file| is_page(file)).collect()
}

fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "md")
}

fn of_docs() -> impl Iterator<Item = PathBuf> {
    pages().into_iter().filter(|page| page.parent().is_some_and(|dir| dir.ends_with("docs")))
}

/// How many words of a page are prose: outside of code blocks, and not between `<!-- written ... -->` and `<!-- end -->`.
fn by_hand(page: &Path) -> usize {
    let text = prose(page);
    let mut parts = text.split("<!-- written ");
    let first = parts.next().unwrap_or_default();
    let behind = parts.filter_map(|part| Some(part.split_once("<!-- end -->")?.1));
    let tokens = std::iter::once(first).chain(behind).flat_map(str::split_whitespace);
    // The bars of a table do not count.
    tokens.filter(|token| token.contains(char::is_alphanumeric)).count()
}

/// A page without its code blocks.
fn prose(page: &Path) -> String {
    let text = fs::read_to_string(page).expect("a page");
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The links of a page to files and headings of this repository.
fn links(prose: &str) -> Vec<String> {
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.starts_with("http")).map(str::to_owned).collect()
}

/// What links call the headings of a page.
fn anchors(prose: &str) -> BTreeSet<String> {
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let texts = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    texts.map(|text| text.chars().filter(is_kept).collect::<String>().replace(' ', "-")).collect()
}
