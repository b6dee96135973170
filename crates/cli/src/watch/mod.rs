//! How `foretell status` and `foretell top` write numbers and names.

pub mod figures;
mod users;

pub use users::Users;
