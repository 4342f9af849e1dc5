//! docs/COMPATIBILITY.md says what the table of permitted differences says:
//!
//! ```sh
//! UPDATE_DOCS=1 cargo test -p dynashard-differential --test compatibility
//! ```

use std::collections::BTreeSet;
use std::{env, fs};

use dynashard_differential::{DIFFERENCES, page};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/COMPATIBILITY.md");

#[test]
fn the_page_says_what_the_table_says() {
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(PAGE, page()).expect("the page is written");
    }
    let stored = fs::read_to_string(PAGE).expect("the page");
    let how = "run UPDATE_DOCS=1 cargo test -p dynashard-differential --test compatibility";
    assert!(stored == page(), "docs/COMPATIBILITY.md is behind the code: {how}");
}

#[test]
fn no_two_rows_have_one_name() {
    let names = DIFFERENCES.iter().map(|row| row.name).collect::<BTreeSet<_>>();
    assert_eq!(names.len(), DIFFERENCES.len());
}
