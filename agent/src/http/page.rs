//! The page: one document that contains its styles and scripts, so that it loads nothing else. Its
//! policy allows only these scripts and requests to this agent.
//!
//! The same document with the data of a capture is a self-contained [`report`].

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{Html, IntoResponse};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const DOCUMENT: &str = include_str!("../../page/index.html");
const STYLE: &str = include_str!("../../page/style.css");
/// In the order in which they depend on each other.
const SCRIPTS: [&str; 14] = [
    include_str!("../../page/units.js"),
    include_str!("../../page/dom.js"),
    include_str!("../../page/api.js"),
    include_str!("../../page/report.js"),
    include_str!("../../page/chart.js"),
    include_str!("../../page/lists.js"),
    include_str!("../../page/networks.js"),
    include_str!("../../page/graph.js"),
    include_str!("../../page/sketch.js"),
    include_str!("../../page/search.js"),
    include_str!("../../page/numbers.js"),
    include_str!("../../page/overview.js"),
    include_str!("../../page/main.js"),
    include_str!("../../page/keys.js"),
];

#[derive(Clone)]
pub struct Page {
    document: String,
    policy: HeaderValue,
}

impl Page {
    pub fn new() -> anyhow::Result<Self> {
        let policy = policy("'self'") + "; frame-ancestors 'none'";
        Ok(Self {
            document: assemble("", ""),
            policy: HeaderValue::try_from(policy)?,
        })
    }

    pub fn answer(&self) -> impl IntoResponse + use<> {
        let fixed = |name: HeaderName, value| (name, HeaderValue::from_static(value));
        let headers = [
            (CONTENT_SECURITY_POLICY, self.policy.clone()),
            fixed(CONTENT_TYPE, "text/html; charset=utf-8"),
            fixed(X_CONTENT_TYPE_OPTIONS, "nosniff"),
            fixed(REFERRER_POLICY, "no-referrer"),
            fixed(CACHE_CONTROL, "no-cache"),
        ];
        (headers, Html(self.document.clone()))
    }
}

/// Returns the document with these data, to be written to a file.
pub fn report(json: &str) -> String {
    // Escaped so that no text of a capture can end the script element.
    let json = json.replace('<', "\\u003c");
    let data = format!("<script type=\"application/json\" id=\"data\">{json}</script>");
    let policy = policy("'none'");
    let meta = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
    assemble(&meta, &data)
}

fn script() -> String {
    // One scope for all scripts.
    format!("'use strict';\n(() => {{\n{}}})();\n", SCRIPTS.concat())
}

fn assemble(meta: &str, data: &str) -> String {
    // The data are inserted last, because they may contain any text.
    let document = DOCUMENT.replacen("<!-- policy -->", meta, 1);
    let document = document.replacen("/* style */", STYLE, 1);
    let document = document.replacen("/* script */", &script(), 1);
    document.replacen("<!-- data -->", data, 1)
}

/// The content security policy, which allows requests to `connect`.
fn policy(connect: &str) -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    let (style, script) = (hash(STYLE), hash(&script()));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; \
         connect-src {connect}; img-src data:; base-uri 'none'; form-action 'none'"
    )
}
