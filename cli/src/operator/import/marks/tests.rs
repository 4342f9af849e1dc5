use proptest::prelude::{any, prop, prop_assert_eq, proptest};

use super::*;

fn rows(marks: &Marks) -> Before {
    match marks.progress() {
        Progress::Rows(progress) => {
            let text = serde_json::to_string(&progress).expect("JSON");
            Before::of(&serde_json::from_str(&text).expect("the same"))
        }
        Progress::Segments(_) => panic!("these are rows"),
    }
}

fn segments(marks: &Marks) -> Vec<SegmentProgress> {
    match marks.progress() {
        Progress::Segments(segments) => segments,
        Progress::Rows(_) => panic!("these are segments"),
    }
}

fn page(first: u64, rows: u64, end: Option<&str>) -> Page {
    let end = end.map(str::to_owned);
    let counts = Counts::default();
    Page { segment: 0, first, left: rows, end, is_sent: false, ends_doubt: false, counts }
}

proptest! {
    #[test]
    fn what_was_noted_down_is_known_again(fates in prop::collection::vec(any::<[bool; 3]>(), 0..200)) {
        let mut marks = Marks::Rows(RowMarks::default());
        let mut expected = Vec::new();
        for (number, [is_accepted, is_sent, is_done]) in (0_u64..).zip(&fates) {
            if !is_accepted {
                continue;
            }
            marks.read(number, false);
            if *is_sent {
                marks.sent(number);
            }
            if *is_sent && *is_done {
                marks.done(number, Done::Written);
            }
            let standing = match (is_sent, is_done) {
                (false, _) => Standing::NotSent,
                (true, false) => Standing::InDoubt,
                (true, true) => Standing::Written,
            };
            expected.push((number, standing));
        }
        let end = u64::try_from(fates.len()).expect("small");
        expected.push((end, Standing::NotSent));
        let before = rows(&marks);
        for (number, standing) in &expected {
            prop_assert_eq!(before.standing(*number), *standing);
        }
        // A run that ends before it has read anything leaves the same behind.
        let again = rows(&Marks::Rows(RowMarks::from(&before, marks.counts())));
        for (number, standing) in expected {
            prop_assert_eq!(again.standing(number), standing);
        }
    }
}

#[test]
fn a_segment_goes_on_behind_the_last_page_before_which_all_is_written() {
    let mut marks = PageMarks::from(&[SegmentProgress::default()], Counts::default());
    marks.read(page(0, 2, Some("a")));
    marks.read(page(2, 0, Some("b")));
    marks.read(page(3, 2, Some("c")));
    marks.read(page(5, 1, None));
    let mut marks = Marks::Pages(marks);
    let at = |marks: &Marks| segments(marks)[0].clone();
    assert_eq!(at(&marks), SegmentProgress::default());
    marks.sent(0);
    marks.sent(4);
    assert_eq!(at(&marks).in_doubt, DoubtTo::Key("c".to_owned()));
    marks.done(0, Done::Written);
    assert_eq!(at(&marks).after, None);
    marks.done(1, Done::Written);
    assert_eq!(at(&marks).after.as_deref(), Some("b"), "a page without rows is passed over");
    marks.sent(5);
    marks.done(5, Done::Written);
    assert_eq!(at(&marks).in_doubt, DoubtTo::End);
    marks.done(3, Done::Written);
    marks.done(4, Done::Written);
    let end = SegmentProgress { is_complete: true, ..SegmentProgress::default() };
    assert_eq!(at(&marks), end);
}

#[test]
fn what_an_earlier_run_has_left_in_doubt_stays_so_until_it_was_read_again() {
    let before =
        SegmentProgress { in_doubt: DoubtTo::Key("c".to_owned()), ..SegmentProgress::default() };
    let mut marks = PageMarks::from(std::slice::from_ref(&before), Counts::default());
    marks.read(Page { is_sent: true, ..page(0, 1, Some("b")) });
    let mut marks = Marks::Pages(marks);
    assert_eq!(segments(&marks)[0], before);
    marks.done(0, Done::Written);
    assert_eq!(segments(&marks)[0], SegmentProgress { after: Some("b".to_owned()), ..before });
    let Marks::Pages(pages) = &mut marks else { panic!("these are pages") };
    pages.read(Page { is_sent: true, ends_doubt: true, ..page(1, 1, Some("d")) });
    assert_eq!(segments(&marks)[0].in_doubt, DoubtTo::Key("d".to_owned()));
    marks.done(1, Done::Written);
    assert_eq!(segments(&marks)[0].in_doubt, DoubtTo::Nothing);
}

/// A row of a page that is read again was counted as written, and once more as found; one that was refused
/// in an earlier run was forgotten.
#[test]
fn regression_rows_of_a_page_were_counted_twice_or_not_at_all() {
    let mut marks = PageMarks::from(&[SegmentProgress::default()], Counts::default());
    let refused = Counts { refused: 3, ..Counts::default() };
    marks.read(Page { counts: refused, ..page(0, 1, Some("a")) });
    marks.read(Page { counts: refused, ..page(1, 2, Some("b")) });
    let mut marks = Marks::Pages(marks);
    marks.done(1, Done::Written);
    assert_eq!(marks.counts(), Counts::default(), "both pages are read again");
    marks.done(0, Done::Written);
    assert_eq!(marks.counts(), Counts { written: 1, ..refused });
    // The next run begins with the second page.
    let mut again = PageMarks::from(&segments(&marks), marks.counts());
    again.read(Page { counts: refused, ..page(0, 2, Some("b")) });
    let mut again = Marks::Pages(again);
    again.done(0, Done::Found);
    again.done(1, Done::Written);
    assert_eq!(again.counts(), Counts { written: 2, kept: 0, found: 1, refused: 6 });
}
