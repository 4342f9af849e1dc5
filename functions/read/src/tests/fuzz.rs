//! Damaged query strings and cursors, from the event to the answer.

use dynashard_api::grants::GrantedKeys;
use dynashard_api::params::Params;
use dynashard_core::Code;
use dynashard_core::query::cursor::Cursor;
use dynashard_keys::SortKeyType;
use dynashard_testkit::{Random, fuzz};

use super::handler;
use dynashard_eventkit::{Answer, Call, World};

/// As many as take a few seconds without optimisation.
const CASES: u64 = 100_000;

/// Of so many query strings, one is also answered from the tables.
const ANSWERED_OF: usize = 100;

/// What strings are made of, and what is put into them: the names, values and signs that mean
/// something, numbers at the edges, and escapes that end too early.
const WORDS: &[&str] = &[
    "pk",
    "sk",
    "limit",
    "order",
    "from",
    "to",
    "begins_with",
    "strategy",
    "consistent",
    "cursor",
    "fields",
    "EWR",
    "2013-01-01T10",
    "asc",
    "desc",
    "ordered",
    "parallel",
    "round-robin",
    "sequential",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "1000",
    "1001",
    "4294967296",
    "1e999",
    "NaN",
    "dest,carrier",
    "dest,dest",
    "_ds_g",
    ",",
    "&",
    "=",
    "%",
    "%2",
    "%2C",
    "%FF",
    "%00",
    "%F0%9F",
    "+",
    "#",
    "\u{0}",
    "é",
    "𝛑",
    "",
];

fn word(random: &Random) -> Vec<u8> {
    random.pick(WORDS).as_bytes().to_vec()
}

/// Queries that are right, each with the cursor of its first page, where it has one.
fn corpus(world: &World) -> Vec<String> {
    let strategies = ["ordered", "parallel", "round-robin", "sequential"];
    let parameters =
        ["", "&order=desc", "&begins_with=2013", "&from=2013-01&to=2014", "&fields=dest"];
    let queries = strategies.iter().flat_map(|strategy| {
        parameters.map(|more| format!("pk=EWR&limit=1&strategy={strategy}{more}"))
    });
    let with_cursor = |query: String| {
        let answer = Answer::of(&handler(world), &Call::new(&format!("GET /query?{query}")));
        let cursor = answer.body["cursor"].as_str().map(|text| format!("{query}&cursor={text}"));
        [Some(query), cursor].into_iter().flatten()
    };
    queries.flat_map(with_cursor).collect()
}

#[test]
fn no_query_string_brings_the_function_down() {
    let world = World::of_flights();
    let corpus = corpus(&world);
    assert_eq!(corpus.len(), 40, "each of the queries has more than one page");
    let handler = handler(&world);
    let known = Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>();
    let mut valid = 0_u64;
    let cases = fuzz(CASES, |random| {
        let mut text = match random.below(10) {
            0 => (0..random.below(12)).flat_map(|_| word(random)).collect(),
            _ => random.pick(&corpus).clone().into_bytes(),
        };
        random.damage(&mut text, word);
        let text = String::from_utf8_lossy(&text);
        let types = [SortKeyType::String, SortKeyType::Number];
        let sort_keys = types[random.below(8) / 7];
        let query = Params::from_query_string(&text).and_then(|mut params| {
            let query = params.query(sort_keys, &GrantedKeys::all())?;
            params.finish().map(|()| query)
        });
        match query {
            Ok(query) => {
                valid += 1;
                if let Some(cursor) = &query.cursor {
                    let decoded = Cursor::decode(cursor, &query, sort_keys);
                    assert!(decoded.map_or_else(|e| known.contains(&e.code().as_str()), |_| true));
                }
            }
            Err(problem) => {
                assert_eq!(problem.status(), 400, "{text:?}");
                assert!(known.contains(&problem.code()), "{text:?}: {}", problem.code());
            }
        }
        if random.below(ANSWERED_OF) == 0 {
            let answer = Answer::of(&handler, &Call::new(&format!("GET /query?{text}")));
            match answer.status {
                200 => assert!(answer.body["items"].is_array(), "{text:?}: {}", answer.text),
                410 => answer.assert_problem(410, "cursor_expired", &text),
                status => {
                    assert_eq!(status, 400, "{text:?}: {}", answer.text);
                    let code = answer.body["code"].as_str().unwrap_or_default().to_owned();
                    assert!(known.contains(&code.as_str()), "{text:?}: {}", answer.text);
                }
            }
        }
    });
    // A case that is repeated alone has no shares.
    let mixed = valid > cases / 100 && valid < cases;
    assert!(mixed || cases < CASES, "{valid} of {cases} make sense");
}
