//! What the OpenAPI document says beyond the single routes.

use std::collections::HashMap;

use utoipa::OpenApi as _;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};

use crate::routes::{Needs, route};

/// The one answer that every refusal and every failure is.
const PROBLEM: &str = "Problem";

/// The frame that routes are added to.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Palisade", description = "Runs AI agents inside a boundary that can be proved.", license(name = "Apache-2.0", identifier = "Apache-2.0")),
    components(schemas(api::Problem, api::Code)),
    security(("bearer" = []))
)]
struct Frame;

/// The document before any route.
pub(crate) fn base() -> OpenApi {
    let mut document = Frame::openapi();
    if let Some(components) = document.components.as_mut() {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let problem = ResponseBuilder::new()
            .description("a problem")
            .content("application/problem+json", content)
            .build();
        components.responses.insert(PROBLEM.to_owned(), RefOr::T(problem));
    }
    document
}

/// Says what every route may answer besides what it is for, and which action it needs.
pub(crate) fn finish(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let methods = [
            ("GET", &mut item.get),
            ("POST", &mut item.post),
            ("PUT", &mut item.put),
            ("PATCH", &mut item.patch),
            ("DELETE", &mut item.delete),
        ];
        for (method, operation) in methods {
            let Some(operation) = operation else { continue };
            name(operation);
            add_problems(operation);
            add_action(operation, method, path);
        }
    }
}

/// The id of every operation, by `METHOD /path`.
pub(crate) fn operation_ids() -> HashMap<String, String> {
    let mut ids = HashMap::new();
    for (path, item) in crate::app::description().paths.paths {
        let methods = [
            ("GET", item.get),
            ("POST", item.post),
            ("PUT", item.put),
            ("PATCH", item.patch),
            ("DELETE", item.delete),
        ];
        for (method, operation) in methods {
            if let Some(id) = operation.and_then(|operation| operation.operation_id) {
                ids.insert(format!("{method} {path}"), id);
            }
        }
    }
    ids
}

/// `list` of `users` is `users_list`: an operation's id is its own in the whole document.
fn name(operation: &mut Operation) {
    let tag = operation.tags.as_ref().and_then(|tags| tags.first());
    if let (Some(tag), Some(id)) = (tag, &operation.operation_id) {
        operation.operation_id = Some(format!("{tag}_{id}"));
    }
}

fn add_problems(operation: &mut Operation) {
    for status in
        ["400", "401", "403", "404", "405", "409", "410", "413", "415", "421", "422", "429", "500", "503"]
    {
        let said = operation.responses.responses.entry(status.to_owned());
        said.or_insert_with(|| RefOr::Ref(Ref::from_response_name(PROBLEM)));
    }
}

/// `x-palisade-action`: what the gate is asked.
fn add_action(operation: &mut Operation, method: &str, path: &str) {
    if let Some(Needs::Action(action) | Needs::Ticket(action)) = route(method, path).map(|route| route.needs)
    {
        let said = Extensions::builder().add("x-palisade-action", action).build();
        operation.extensions.get_or_insert_default().merge(said);
    }
}
