//! Adds fields to JSON objects, without the ways to panic that indexing has.

use serde_json::Value;

/// Sets a field of an object; what is no object stays as it is.
pub(crate) fn set(document: &mut Value, name: &str, value: Value) {
    if let Value::Object(fields) = document {
        fields.insert(name.to_owned(), value);
    }
}
