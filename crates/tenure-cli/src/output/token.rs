//! What is said about the callers of the lock service.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_server::{CallerToken, Principal};

use super::{Output, result, write_line};
use crate::failure::Failure;

/// A caller that was made.
pub(crate) struct NewCaller<'a> {
    pub(crate) principal: &'a Principal,
    /// Its token; one that has a certificate needs none.
    pub(crate) token: Option<&'a CallerToken>,
    /// Where it was put.
    pub(crate) file: Option<&'a Path>,
}

impl Output {
    /// The token is shown here and nowhere else: it fails if nobody can have read it.
    pub(crate) fn new_caller(&self, caller: &NewCaller<'_>) -> Result<(), Failure> {
        let NewCaller { principal, token, file } = caller;
        let (token, line) = (token.map(CallerToken::reveal), principal.to_line());
        if self.json {
            let file = file.map(|file| file.display().to_string());
            let text = json!({ "name": principal.name, "token": token, "line": line, "file": file });
            return write_line(std::io::stdout(), &text.to_string())
                .map_err(|error| super::unwritten(&error));
        }
        let mut text = token.map_or_else(String::new, |token| format!("token  {token}\n"));
        if file.is_none() {
            text.push_str(&format!("line   {line}\n"));
        }
        write_line(std::io::stdout(), &text).map_err(|error| super::unwritten(&error))?;
        let place = file.map_or_else(
            || "add the line to the file set as `callers` under [serve]".to_owned(),
            |file| format!("added to {}", file.display()),
        );
        let shown = if token.is_some() { "; the token is shown only once" } else { "" };
        self.note(&format!("{} may {}: {place}{shown}", principal.name, principal.rights));
        Ok(())
    }

    pub(crate) fn callers(&self, callers: &[Arc<Principal>]) -> Result<(), Failure> {
        if self.json {
            return callers.iter().try_for_each(|caller| result(&as_json(caller).to_string()));
        }
        let head = ["NAME", "BY", "UNTIL", "MAY"].map(str::to_owned);
        let rows = callers.iter().map(|caller| {
            let by =
                caller.certificate().map_or_else(|| "token".to_owned(), |name| format!("certificate {name}"));
            let until = match caller.until {
                None => "no end".to_owned(),
                Some(_) if caller.is_over(Timestamp::now()) => "over".to_owned(),
                Some(until) => until.to_string(),
            };
            [caller.name.clone(), by, until, caller.rights.to_string()]
        });
        let rows: Vec<[String; 4]> = std::iter::once(head).chain(rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (name, by, until) = (width(0), width(1), width(2));
        let line =
            |row: &[String; 4]| format!("{:<name$}  {:<by$}  {:<until$}  {}", row[0], row[1], row[2], row[3]);
        result(&rows.iter().map(line).collect::<Vec<_>>().join("\n"))
    }
}

fn as_json(caller: &Principal) -> Value {
    json!({
        "name": caller.name,
        "certificate": caller.certificate(),
        "may": caller.rights.may,
        "prefixes": caller.rights.prefixes,
        "until": caller.until.map(|until| until.to_string()),
        "over": caller.is_over(Timestamp::now()),
    })
}
