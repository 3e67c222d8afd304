//! SBX-09: one test per field for what is not as planned, and every field and byte for what is changed afterwards.

mod altered;
mod chained;
mod kit;
mod planned;
mod shown;
