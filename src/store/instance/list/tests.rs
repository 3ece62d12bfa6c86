//! Patterns; every shape of the statement; counts and plans on a table that is large enough.

use super::*;
use crate::db::{Connector, DatabaseUrl, Pool, SchemaName, migrate};
use crate::testing::store::Fixture;

#[test]
fn a_pattern_means_the_text_itself() {
    assert_eq!(pattern("50%_\\", true), "%50\\%\\_\\\\%");
    assert_eq!(pattern(&"é".repeat(70), false), format!("{}%", "é".repeat(64)));
}

#[test]
fn the_end_of_a_prefix_is_behind_it() {
    for (prefix, behind) in [
        ("ab", "ac"),
        ("a9", "a:"),
        ("a-", "a."),
        ("a\u{10ffff}", "b"),
        ("\u{10ffff}", ""),
    ] {
        assert_eq!(behind_prefix(prefix), behind);
    }
}

const ORDERS: [InstanceListOrder; 4] = [
    InstanceListOrder::Created,
    InstanceListOrder::Updated,
    InstanceListOrder::Finished,
    InstanceListOrder::Name,
];

/// Each order and direction, from the beginning and behind a place.
fn pages() -> Vec<ListPage> {
    let mut pages = Vec::new();
    for order in ORDERS {
        for (descending, behind) in [(false, false), (false, true), (true, false), (true, true)] {
            let after = behind.then(|| ListCursor {
                key: "2026-01-01T00:00:00Z".to_owned(),
                id: "i1".to_owned(),
            });
            pages.push(ListPage {
                order,
                descending,
                limit: 10,
                offset: 0,
                after,
            });
        }
    }
    pages
}

#[tokio::test]
async fn every_shape_of_the_statement_runs() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 1).unwrap();
    let pools = ListPools::of_work(&pool);
    let pages = pages();
    let mut shapes = std::collections::HashSet::new();
    for bits in 0..16 {
        let is = |bit: u32| bits & (1 << bit) > 0;
        let filter = InstanceListFilter {
            search: is(0).then(|| "text".to_owned()),
            name: is(1).then(|| "name".to_owned()),
            correlation_ids: if is(2) { vec!["c".to_owned()] } else { Vec::new() },
            ..InstanceListFilter::default()
        };
        for source in [Source::AtOnce, Source::FewRunning, Source::EachVersion] {
            if source == Source::EachVersion && bits & 7 > 0 {
                continue;
            }
            let parameters = Parameters {
                tenant: "",
                versions: Some(vec!["v1".to_owned()]),
                pattern: filter.search.as_deref().map(|text| pattern(text, is(3))),
                behind_prefix: "texu".to_owned(),
                filter: &filter,
                found_versions: Vec::new(),
                has_trigrams: is(3),
                source,
            };
            let counts = [(Wanted::Count, None), (Wanted::Estimate, None)];
            let all = pages.iter().map(|page| (Wanted::Page, Some(page))).chain(counts);
            for (wanted, page) in all {
                let text = parameters.text(wanted, source, page);
                let rows = parameters.run(pools, wanted, page, 10).await;
                let rows = rows.unwrap_or_else(|error| panic!("{error:?}\n{text}"));
                match wanted {
                    Wanted::Page => assert!(rows.is_empty()),
                    Wanted::Count | Wanted::Estimate => assert_eq!(rows.len(), 1),
                }
                shapes.insert(text);
            }
        }
    }
    assert!(shapes.len() > 400, "only {} shapes", shapes.len());
}

/// 100,000 instances: 20,000 of one definition, and 1,000 of each other one. Every tenth has a name and a correlation id.
const FILL: &str = "
    INSERT INTO definition (tenant_id, version_id, definition_id, version, is_latest, is_published, was_published, body)
        SELECT '', 'v' || n, 'd' || n, 1, true, true, true, '{}' FROM generate_series(0, 99) n;
    INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version, state,
                          created_at, name, correlation_id)
        SELECT '', md5(n::text), 'd' || d, 'v' || d, 1, 1 /* finished */, 3 /* finished */, 1, '{}',
               now() - n * interval '1 second', CASE WHEN n % 10 = 0 THEN 'order ' || md5(n::text) END,
               CASE WHEN n % 10 = 0 THEN 'customer ' || md5(n::text) END
        FROM generate_series(1, 100000) n CROSS JOIN LATERAL (SELECT CASE WHEN n % 5 = 0 THEN 0 ELSE n % 100 END) v(d);
    ANALYZE";

async fn filled() -> (Fixture, Pool) {
    let fixture = Fixture::new().await;
    fixture.execute("SET statement_timeout = '2min'").await;
    fixture.execute(FILL).await;
    let pool = Pool::new(&fixture.base, 1).unwrap();
    (fixture, pool)
}

fn newest() -> ListPage {
    ListPage {
        order: InstanceListOrder::Created,
        descending: true,
        limit: 100,
        offset: 0,
        after: None,
    }
}

#[tokio::test]
async fn a_count_above_ten_thousand_is_an_estimate_and_says_so() {
    let (_fixture, pool) = filled().await;
    let tenant = TenantId::default();
    let total = async |filter: InstanceListFilter| {
        let listed = list(ListPools::of_work(&pool), &tenant, &filter, &newest())
            .await
            .unwrap();
        assert_eq!(listed.rows.len(), 100);
        (listed.total, listed.is_estimate)
    };
    let (all, is_estimate) = total(InstanceListFilter::default()).await;
    assert!(is_estimate && (50_000..200_000).contains(&all), "{all}");
    // Counted up to the bound, then estimated.
    let one = InstanceListFilter {
        definition_ids: vec!["d0".to_owned()],
        ..InstanceListFilter::default()
    };
    let (of_one, is_estimate) = total(one.clone()).await;
    assert!(is_estimate && of_one > 10_000, "{of_one}");
    let named = InstanceListFilter {
        created: TimeRange {
            from: Some(Utc::now() - Duration::seconds(10_000)),
            ..TimeRange::default()
        },
        ..one
    };
    let (few, is_estimate) = total(named).await;
    assert!(!is_estimate && few < 10_000, "{few}");
}

#[tokio::test]
async fn lists_of_a_large_table_find_their_rows_by_index() {
    let (_fixture, pool) = filled().await;
    let (tenant, page) = (TenantId::default(), newest());
    let any = InstanceListFilter::default;
    let text = |text: &str| vec![text.to_owned()];
    #[rustfmt::skip]
    let lists = [
        ("all", any(), vec!["instance_by_time"]),
        ("by definition", InstanceListFilter { definition_ids: text("d1"), ..any() }, vec!["instance_by_version"]),
        ("by version", InstanceListFilter { version_ids: text("v1"), ..any() }, vec!["instance_by_version"]),
        ("by id", InstanceListFilter { ids: text("c4ca4238a0b923820dcc509a6f75849b"), ..any() }, vec!["instance_pkey"]),
        ("by a text", InstanceListFilter { search: Some("customer d3d9446802a44259".to_owned()), ..any() },
         vec!["instance_name", "instance_correlation", "instance_pkey"]),
    ];
    for (name, filter, indexes) in lists {
        let pools = ListPools::of_work(&pool);
        let parameters = parameters(pools, &tenant, &filter).await.unwrap().unwrap();
        let text = parameters.text(Wanted::Page, parameters.source, Some(&page));
        let explain = format!("EXPLAIN\n{text}");
        let rows = parameters
            .send(pools, &explain, false, Some(&page), page.limit)
            .await
            .unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get("QUERY PLAN")).collect();
        let plan = plan.join("\n");
        assert!(!plan.contains("Seq Scan on instance "), "{name}\n{plan}");
        for index in indexes {
            assert!(plan.contains(&format!(" {index} ")), "{name}: {index}\n{plan}");
        }
    }
}

/// Read one by one, each of sixty versions gives a thousand rows, of which a page takes a thousand in all.
#[tokio::test]
async fn a_page_of_a_bulk_action_of_many_versions_is_read_in_the_order_of_creation() {
    let (_fixture, pool) = filled().await;
    let tenant = TenantId::default();
    let filter = InstanceListFilter {
        definition_ids: (0..60).map(|number| format!("d{number}")).collect(),
        ..InstanceListFilter::default()
    };
    let pools = ListPools::of_work(&pool);
    let parameters = parameters(pools, &tenant, &filter).await.unwrap().unwrap();
    let parameters = parameters.for_large_pages();
    let page = ListPage {
        order: InstanceListOrder::Created,
        descending: false,
        limit: 1000,
        offset: 0,
        after: None,
    };
    let text = parameters.text(Wanted::Page, parameters.source, Some(&page));
    let explain = format!("EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF)\n{text}");
    let rows = parameters
        .send(pools, &explain, false, Some(&page), page.limit)
        .await
        .unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get("QUERY PLAN")).collect();
    let plan = plan.join("\n");
    assert!(plan.contains(" instance_by_time "), "{plan}");
    let rows = oldest(pools, &tenant, &filter, None, 1000).await.unwrap();
    assert!(rows.is_sorted_by_key(|row| (row.created_at, row.id.clone())));
    assert_eq!(rows.len(), 1000);
}

/// A connection whose statement was dropped within a transaction does not serve another caller.
#[tokio::test]
async fn a_dropped_list_leaves_no_setting_behind() {
    let fixture = Fixture::new().await;
    let pool = Pool::new(&fixture.base, 1).unwrap();
    let before: String = pool.query_one("SHOW enable_bitmapscan", &[]).await.unwrap().get(0);
    let settings = "BEGIN; SET LOCAL enable_bitmapscan = on";
    let list = pool.query_planned("SELECT pg_sleep(1)", &[], settings);
    let time = std::time::Duration::from_millis(50);
    assert!(tokio::time::timeout(time, list).await.is_err());
    let after: String = pool.query_one("SHOW enable_bitmapscan", &[]).await.unwrap().get(0);
    assert_eq!(after, before);
    pool.query_one("SELECT txid_current()", &[]).await.unwrap();
}

/// A database with the locale en_US: `-` is less than a letter there only by its bytes, and `Ä` is the capital of `ä`.
#[tokio::test]
async fn a_database_of_another_locale_finds_beginnings_and_any_case() {
    let fixture = Fixture::new().await;
    let version = "SELECT current_setting('server_version_num')::bigint";
    if fixture.count(version).await < 150_000 {
        println!("this server has one locale for all databases");
        return;
    }
    let url = format!("{}_en", fixture.url());
    let name = url.rsplit('/').next().unwrap().to_owned();
    let create =
        format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en-US'");
    fixture.execute(&create).await;
    let found = async {
        let schema = SchemaName::parse("mainspring").unwrap();
        let base = Connector::new(&DatabaseUrl::parse(&url).unwrap(), &schema).unwrap();
        migrate::run(&base).await.unwrap();
        let pool = Pool::new(&base, 1).unwrap();
        let session = base.open().await.unwrap();
        let rows = "INSERT INTO definition (tenant_id, version_id, definition_id, version, is_latest, is_published, was_published, body)
                        VALUES ('', 'v', 'Ärger', 1, true, true, true, '{}');
                    INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version, state)
                        SELECT '', id, 'Ärger', 'v', 1, 1 /* finished */, 3 /* finished */, 1, '{}'
                        FROM unnest(ARRAY['a-1', 'a-B', 'a1', 'A-1', 'b:c']) id";
        session.client.batch_execute(rows).await.unwrap();
        let mut found = Vec::new();
        for text in ["a-", "b:", "a", "ärg", "Ärger"] {
            let filter = InstanceListFilter {
                search: Some(text.to_owned()),
                ..InstanceListFilter::default()
            };
            let listed = list(ListPools::of_work(&pool), &TenantId::default(), &filter, &newest()).await;
            found.push((text, listed.unwrap().rows.len()));
        }
        found
    }
    .await;
    fixture.execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
    assert_eq!(found, [("a-", 2), ("b:", 1), ("a", 3), ("ärg", 5), ("Ärger", 5)]);
}
