//! What `docs/reference/openapi.json` promises, judged by other people's programs. That it is what
//! the service serves, and that the tests' own requests get such answers, is checked where the
//! service is.

use std::path::Path;

use tenure_testkit::installed;

use crate::deployment::embedded_store;
use crate::serve::Serving;

const DESCRIPTION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");

/// How many requests are made up for each call; more where the time is there.
const EXAMPLES: &str = "15";

#[test]
fn the_description_is_openapi() {
    let Some(mut validator) = installed("openapi-spec-validator") else { return };
    let done = validator.arg(DESCRIPTION).output().unwrap();
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn requests_that_are_made_up_get_answers_as_described() {
    let Some(mut schemathesis) = installed("schemathesis") else { return };
    let deployment = embedded_store();
    let service = Serving::start(&deployment, &[]);
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/schemathesis");
    let examples = std::env::var("TENURE_CONTRACT_EXAMPLES").unwrap_or_else(|_| EXAMPLES.to_owned());
    schemathesis
        .env("PYTHONPATH", &settings)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SCHEMATHESIS_HOOKS", "hooks");
    schemathesis.arg("--config-file").arg(settings.join("schemathesis.toml"));
    schemathesis.args(["run", "--no-color", "--max-examples", &examples, DESCRIPTION]);
    schemathesis.args(["--url", &format!("http://{}", service.address)]);
    let done = schemathesis.current_dir(deployment.folder()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    // Which links are followed depends on which locks were taken just then.
    let covered = said.lines().find_map(|line| line.trim().strip_prefix("API Links:"));
    let covered = covered.and_then(|links| links.trim().split(' ').next()?.parse::<u8>().ok());
    assert!(covered.is_some_and(|links| links >= 2), "{said}");
}
