//! Typed access to a checked object: values that are absent, or that the shape check has refused,
//! read as absent; defaults come from the schema.

use std::path::PathBuf;
use std::time::Duration;

use super::keys::{fields, fields_of};
use super::Context;
use crate::config::json::{push_index, push_key, Node, Value};
use crate::config::values;
use crate::domain::catalogue::{Field, Preset, Shape};
use crate::domain::ids::EnvName;

/// An object of the file and the keys that it may have.
pub(super) struct Object<'a> {
    pub(super) cx: &'a Context<'a>,
    pub(super) node: &'a Node<'a>,
    pub(super) path: String,
    fields: Vec<&'static Field>,
}

impl<'a> Object<'a> {
    /// The root of the document; `None` where it is no object, which has been reported.
    pub(super) fn root(cx: &'a Context<'a>, node: &'a Node<'a>) -> Option<Object<'a>> {
        matches!(node.value, Value::Object(_)).then(|| Object {
            cx,
            node,
            path: String::new(),
            fields: fields(crate::config::schema::ROOT),
        })
    }

    /// The value of a key, faulty ones included; `null` and empty strings are absent.
    pub(super) fn given(&self, key: &str) -> Option<&'a Node<'a>> {
        let Value::Object(members) = &self.node.value else {
            return None;
        };
        members
            .iter()
            .find(|member| member.key == key)
            .map(|member| &member.node)
            .filter(|node| !node.value.is_absent())
    }

    fn sound(&self, key: &str) -> Option<&'a Node<'a>> {
        self.given(key).filter(|node| self.cx.found.sound(node.at))
    }

    /// Whether the key is there but was refused: what depends on it cannot be judged.
    pub(super) fn spoiled(&self, key: &str) -> bool {
        self.given(key)
            .is_some_and(|node| !self.cx.found.sound(node.at))
    }

    fn field(&self, key: &str) -> Option<&'static Field> {
        self.fields.iter().copied().find(|field| field.key == key)
    }

    fn preset(&self, key: &str) -> Option<&'static str> {
        match self.field(key)?.default {
            Preset::Value(value) if !self.spoiled(key) => Some(value),
            _ => None,
        }
    }

    pub(super) fn path_of(&self, key: &str) -> String {
        let mut path = self.path.clone();
        push_key(&mut path, key);
        path
    }

    /// Where a problem with a key is reported: at its value, or at the object without it.
    pub(super) fn at(&self, key: &str) -> usize {
        self.given(key).map_or(self.node.at, |node| node.at)
    }

    /// A string, or its default.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        match self.sound(key).map(|node| &node.value) {
            Some(Value::Text(text)) => Some(text),
            _ => self.preset(key),
        }
    }

    /// A string, or none.
    pub(super) fn text_given(&self, key: &str) -> Option<&'a str> {
        match self.sound(key).map(|node| &node.value) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// `true` or `false`, or its default.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.sound(key).map(|node| &node.value) {
            Some(Value::Bool(flag)) => Some(*flag),
            _ => self.preset(key)?.parse().ok(),
        }
    }

    /// A whole number, or its default.
    pub(super) fn whole(&self, key: &str) -> Option<u32> {
        match self.sound(key).map(|node| &node.value) {
            Some(Value::Number(text)) => values::whole(text)?.try_into().ok(),
            _ => self.preset(key)?.parse().ok(),
        }
    }

    /// A duration, or its default.
    pub(super) fn span(&self, key: &str) -> Option<Duration> {
        self.text(key).and_then(values::span)
    }

    /// A path, relative ones from the file's folder.
    pub(super) fn file(&self, key: &str) -> Option<PathBuf> {
        self.text_given(key)
            .map(|text| self.cx.env.directory.join(text))
    }

    /// The name of a variable.
    pub(super) fn env(&self, key: &str) -> Option<EnvName> {
        self.text_given(key).map(EnvName::new)
    }

    /// A value as it is.
    pub(super) fn raw(&self, key: &str) -> Option<&'a Node<'a>> {
        self.sound(key)
    }

    /// An object below this one.
    pub(super) fn object(&self, key: &str) -> Option<Object<'a>> {
        let node = self.sound(key)?;
        let fields = fields_of(self.cx, self.field(key)?.shape, node)?;
        matches!(node.value, Value::Object(_)).then(|| Object {
            cx: self.cx,
            node,
            path: self.path_of(key),
            fields,
        })
    }

    /// The entries of a list that may be used, each with its index.
    pub(super) fn entries(&self, key: &str) -> Vec<(usize, &'a Node<'a>)> {
        let most = match self.field(key).map(|field| field.shape) {
            Some(Shape::List(_, _, most)) => most,
            _ => 0,
        };
        match self.sound(key).map(|node| &node.value) {
            Some(Value::List(nodes)) => nodes
                .iter()
                .enumerate()
                .take(most)
                .filter(|(_, node)| self.cx.found.sound(node.at))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The strings of a list.
    pub(super) fn texts(&self, key: &str) -> Vec<(usize, &'a Node<'a>, &'a str)> {
        self.entries(key)
            .into_iter()
            .filter_map(|(index, node)| match &node.value {
                Value::Text(text) => Some((index, node, text.as_ref())),
                _ => None,
            })
            .collect()
    }

    /// The objects of a list.
    pub(super) fn objects(&self, key: &str) -> Vec<Object<'a>> {
        let Some(Shape::List(of, _, _)) = self.field(key).map(|field| field.shape) else {
            return Vec::new();
        };
        self.entries(key)
            .into_iter()
            .filter_map(|(index, node)| {
                let fields = fields_of(self.cx, *of, node)?;
                matches!(node.value, Value::Object(_)).then(|| Object {
                    cx: self.cx,
                    node,
                    path: self.entry_path(key, index),
                    fields,
                })
            })
            .collect()
    }

    /// The path of an entry of a list.
    pub(super) fn entry_path(&self, key: &str, index: usize) -> String {
        let mut path = self.path_of(key);
        push_index(&mut path, index);
        path
    }

    /// An error at a key.
    pub(super) fn error(&self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        self.cx.found.error(
            self.at(key),
            || self.path_of(key),
            || (message.into(), help.into()),
        );
    }

    /// A warning at a key.
    pub(super) fn warning(&self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        self.cx.found.warning(
            self.at(key),
            || self.path_of(key),
            || (message.into(), help.into()),
        );
    }
}
