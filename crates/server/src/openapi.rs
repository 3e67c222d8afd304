//! What the OpenAPI document says beyond the single routes.

use utoipa::OpenApi as _;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};

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
    }
    document
}

/// Says what every route may answer besides what it is for.
pub(crate) fn finish(document: &mut OpenApi) {
    for item in document.paths.paths.values_mut() {
        let methods = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in methods.into_iter().flatten() {
            name(operation);
            add_problems(operation);
        }
    }
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
        if operation.responses.responses.contains_key(status) {
            continue;
        }
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let response = ResponseBuilder::new()
            .description("a problem")
            .content("application/problem+json", content)
            .build();
        operation.responses.responses.insert(status.to_owned(), RefOr::T(response));
    }
}
