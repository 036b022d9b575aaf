//! The steps of `docs/how-to/fence-s3.md`, on a real object store. The page's own code is run as a
//! documentation test.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use tenure::Fence;
use tenure_testkit::S3Server;
use ureq::Error;

use crate::interleaved::{CLAIM_FIRST, Resource, all_orders_of_two, run};

/// What a write is done for only.
#[derive(Clone, Debug)]
enum If {
    Nothing,
    Absent,
    Tagged(String),
}

struct Store {
    bucket: Bucket,
    credentials: Credentials,
}

impl Store {
    fn open(server: &S3Server) -> Self {
        let endpoint = server.url().parse().unwrap();
        let bucket = Bucket::new(endpoint, UrlStyle::Path, server.bucket(), "us-east-1").unwrap();
        Self { bucket, credentials: Credentials::new(server.key(), server.key()) }
    }

    /// The text of an object and its tag; `None` if there is no such object.
    fn get(&self, key: &str) -> Option<(String, String)> {
        let url = self.bucket.get_object(Some(&self.credentials), key).sign(Duration::from_secs(60));
        let mut answer = match ureq::get(url.as_str()).call() {
            Err(Error::StatusCode(404)) => return None,
            answer => answer.unwrap(),
        };
        Some((answer.body_mut().read_to_string().unwrap(), tag(&answer)))
    }

    /// Puts it, if the condition holds: its new tag, or nothing if it does not.
    fn put(&self, key: &str, text: &str, condition: If) -> Option<String> {
        let url = self.bucket.put_object(Some(&self.credentials), key).sign(Duration::from_secs(60));
        let request = ureq::put(url.as_str());
        let request = match condition {
            If::Nothing => request,
            If::Absent => request.header("If-None-Match", "*"),
            If::Tagged(tag) => request.header("If-Match", tag),
        };
        match request.send(text) {
            Ok(answer) => Some(tag(&answer)),
            Err(Error::StatusCode(404 | 409 | 412)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Claims an object: its contents, and the tag that a write needs. Nothing if a later holder
    /// has been here.
    fn claim(&self, key: &str, fence: u64) -> Option<(String, String)> {
        loop {
            let (contents, condition) = match self.get(key) {
                None => (String::new(), If::Absent),
                Some((text, tag)) => {
                    let (seen, contents) = text.split_once('\n').unwrap();
                    if seen.parse::<u64>().unwrap() > fence {
                        return None;
                    }
                    (contents.to_owned(), If::Tagged(tag))
                }
            };
            if let Some(tag) = self.put(key, &format!("{fence}\n{contents}"), condition) {
                return Some((contents, tag));
            }
        }
    }
}

fn tag(answer: &ureq::http::Response<ureq::Body>) -> String {
    answer.headers()["etag"].to_str().unwrap().to_owned()
}

/// An object as the steps of one worker after another see it.
struct Object<'a> {
    store: &'a Store,
    key: String,
    /// What each holder has claimed: the contents and the tag.
    claims: BTreeMap<Fence, (String, String)>,
}

impl Resource for Object<'_> {
    fn claim(&mut self, fence: Fence) -> bool {
        let claim = self.store.claim(&self.key, fence.get());
        claim.is_some_and(|claim| self.claims.insert(fence, claim).is_none())
    }

    fn read(&mut self, fence: Fence) -> Option<String> {
        Some(self.claims.get(&fence)?.0.clone())
    }

    fn write(&mut self, fence: Fence, list: &str) -> bool {
        let Some((_, tag)) = self.claims.remove(&fence) else { return false };
        self.store.put(&self.key, &format!("{fence}\n{list}"), If::Tagged(tag)).is_some()
    }
}

#[test]
fn in_every_order_of_two_holders_the_object_store_loses_no_update() {
    let Some(server) = S3Server::start() else { return };
    let store = Store::open(&server);
    for (number, turns) in all_orders_of_two(CLAIM_FIRST.len()).into_iter().enumerate() {
        let mut object = Object { store: &store, key: format!("doc/{number}"), claims: [].into() };
        let outcome = run(&mut object, CLAIM_FIRST, &turns);
        assert!(outcome.lost.is_empty() && outcome.is_in_order(), "{turns:?}: {outcome:?}");
    }
}

/// Several holders at once, as if the lock excluded nobody: what the store accepted is there at the
/// end.
#[test]
fn no_update_of_holders_at_the_same_time_is_lost_by_the_object_store() {
    let Some(server) = S3Server::start() else { return };
    let store = Store::open(&server);
    let (fences, accepted) = (Mutex::new(1_700_000_000_000_000_u64..), Mutex::new(vec![]));
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..20 {
                    let fence = fences.lock().unwrap().next().unwrap();
                    let Some((list, tag)) = store.claim("list", fence) else { continue };
                    if store.put("list", &format!("{fence}\n{list}{fence} "), If::Tagged(tag)).is_some() {
                        accepted.lock().unwrap().push(fence);
                    }
                }
            });
        }
    });
    let mut accepted = accepted.into_inner().unwrap();
    accepted.sort_unstable();
    let (text, _) = store.get("list").unwrap();
    let list = text.split_once('\n').unwrap().1;
    let listed: Vec<u64> = list.split_whitespace().map(|fence| fence.parse().unwrap()).collect();
    assert_eq!(listed, accepted, "in the order of their fences, and none is lost");
    assert!(!accepted.is_empty());
}

/// Why the fence is in the body: a claim that leaves the body as it was leaves the tag, too, and
/// the late write of the holder before passes.
#[test]
fn a_put_of_the_same_body_leaves_the_tag_as_it_was() {
    let Some(server) = S3Server::start() else { return };
    let store = Store::open(&server);
    let old = store.put("same", "contents", If::Absent).unwrap();
    let new = store.put("same", "contents", If::Nothing).unwrap();
    assert_eq!(old, new);
    assert!(store.put("same", "late", If::Tagged(old.clone())).is_some(), "it was not noticed");
    assert!(store.put("same", "later", If::Tagged(old)).is_none(), "another body is another tag");
}
