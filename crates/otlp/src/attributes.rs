//! Names with values: what tells series, spans and the things that send them apart.

use std::borrow::Cow;

use crate::protobuf::Message;

/// A name with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The name, as the semantic conventions have it.
    pub name: Cow<'static, str>,
    /// The value.
    pub value: AttributeValue,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A number.
    Integer(i64),
}

impl Attribute {
    /// A text under this name.
    pub fn text(name: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self { name: name.into(), value: AttributeValue::Text(text.into()) }
    }

    /// A number under this name.
    pub fn integer(name: impl Into<Cow<'static, str>>, number: i64) -> Self {
        Self { name: name.into(), value: AttributeValue::Integer(number) }
    }
}

/// What sends: the process, and its part that made what is sent.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// What the resource is called: `service.name` and its kin.
    pub resource: Vec<Attribute>,
    /// The name of what made metrics and spans.
    pub scope: &'static str,
    /// The version of that.
    pub version: &'static str,
}

impl Sender {
    /// A request with one list of metrics or of spans, which are fields number 2 of their scope.
    pub(crate) fn request(&self, fill: impl FnOnce(&mut Message)) -> Vec<u8> {
        let mut request = Message::default();
        request.message(1, |of_resource| {
            of_resource.message(1, |resource| write(resource, 1, &self.resource));
            of_resource.message(2, |of_scope| {
                of_scope.message(1, |scope| {
                    scope.text(1, self.scope);
                    scope.text(2, self.version);
                });
                fill(of_scope);
            });
        });
        request.finish()
    }
}

/// Writes attributes as the fields of this number.
pub(crate) fn write(message: &mut Message, field: u64, attributes: &[Attribute]) {
    for attribute in attributes {
        message.message(field, |pair| {
            pair.text(1, &attribute.name);
            pair.message(2, |value| match &attribute.value {
                AttributeValue::Text(text) => value.blob_of_oneof(1, text.as_bytes()),
                AttributeValue::Integer(number) => value.number_of_oneof(3, *number as u64),
            });
        });
    }
}
