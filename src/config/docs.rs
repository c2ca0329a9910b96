//! The schema as Markdown tables, in English and Spanish, made from the one description that the
//! check uses too. Pure.

use super::schema;
use super::values::span_text;
use crate::domain::catalogue::{Catalogue, Docs, Family, Field, Need, Origin, Preset, Shape};
use crate::domain::message::Language;

/// One object of the file: where it stands and which keys it has.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its path, like `brains[].models[]`, for keys of one kind with the kind behind a space, like
    /// `channels[] telegram`; `root` for the file itself.
    pub name: String,
    /// Its keys.
    pub fields: Vec<&'static Field>,
}

/// Every object of the file, outer ones first.
#[must_use]
pub fn sections(catalogue: &Catalogue) -> Vec<Section> {
    let mut all = Vec::new();
    below(catalogue, "", Shape::Object(schema::ROOT), &mut all);
    all
}

fn below(catalogue: &Catalogue, path: &str, shape: Shape, all: &mut Vec<Section>) {
    let name = |kind: &str| match (path, kind) {
        ("", _) => "root".to_owned(),
        (path, "") => path.to_owned(),
        (path, kind) => format!("{path} {kind}"),
    };
    let mut add = |kind: &str, fields: Vec<&'static Field>| {
        if fields.is_empty() {
            return;
        }
        all.push(Section {
            name: name(kind),
            fields: fields.clone(),
        });
        for field in fields {
            let inner = match path {
                "" => field.key.to_owned(),
                path => format!("{path}.{}", field.key),
            };
            below(catalogue, &inner, field.shape, all);
        }
    };
    match shape {
        Shape::Object(fields) => add("", fields.iter().collect()),
        Shape::PerTool(fields) => {
            let inner = format!("{path}.TOOL");
            below(catalogue, &inner, Shape::Object(fields), all);
        }
        Shape::Extended(fields, Family::Tool) => {
            let cages = catalogue.tools.iter().filter_map(|kind| kind.cage.as_ref());
            add("", fields.iter().chain(cages).collect());
        }
        Shape::Extended(fields, Family::Channel) => {
            add("", fields.iter().collect());
            for kind in &catalogue.channels {
                add(kind.name, kind.fields.iter().collect());
            }
        }
        Shape::Extended(fields, Family::Provider) => {
            add("", fields.iter().collect());
            for kind in &catalogue.providers {
                add(kind.name, kind.fields.iter().collect());
            }
        }
        Shape::List(of, _, _) => below(catalogue, &format!("{path}[]"), *of, all),
        _ => {}
    }
}

/// The table of a section: key, value, whether it must be there, default, meaning. A `+` marks keys
/// beyond the first form of the file.
#[must_use]
pub fn table(catalogue: &Catalogue, section: &Section, language: Language) -> String {
    let mut out = match language {
        Language::En => "| key | value | required | default | meaning |\n".to_owned(),
        Language::Es => "| clave | valor | obligatoria | por defecto | significado |\n".to_owned(),
    };
    out.push_str("|---|---|---|---|---|\n");
    for field in &section.fields {
        let plus = match field.origin {
            Origin::Core => "",
            Origin::Extra => " +",
        };
        out.push_str(&format!(
            "| `{}`{plus} | {} | {} | {} | {} |\n",
            field.key,
            cell(&value(catalogue, field.shape, language)),
            need(field.need, language),
            preset(field, language),
            cell(of(field.docs, language)),
        ));
    }
    out
}

fn of(docs: Docs, language: Language) -> &'static str {
    match language {
        Language::En => docs.en,
        Language::Es => docs.es,
    }
}

/// Text as it stands in a cell, where a bar would end it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn need(need: Need, language: Language) -> &'static str {
    match (need, language) {
        (Need::Required, Language::En) => "yes",
        (Need::Required, Language::Es) => "sí",
        (Need::Optional | Need::Guarded, _) => "no",
        (Need::When(docs), language) => of(docs, language),
    }
}

fn preset(field: &Field, language: Language) -> String {
    match (field.default, field.shape) {
        (Preset::None, _) => String::new(),
        (Preset::Value(text), Shape::List(..)) => text
            .split(' ')
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(" "),
        (Preset::Value(text), _) => format!("`{text}`"),
        (Preset::Told(docs), _) => of(docs, language).to_owned(),
    }
}

/// What a value looks like, in words.
fn value(catalogue: &Catalogue, shape: Shape, language: Language) -> String {
    let say = |en: &str, es: &str| match language {
        Language::En => en.to_owned(),
        Language::Es => es.to_owned(),
    };
    let words = |words: &[&str]| {
        let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
        quoted.join(" | ")
    };
    match shape {
        Shape::Line(most) => say(
            &format!("text, up to {most} characters"),
            &format!("texto, hasta {most} caracteres"),
        ),
        Shape::Prose(most) => say(
            &format!("text with line breaks, up to {most} characters"),
            &format!("texto con saltos de línea, hasta {most} caracteres"),
        ),
        Shape::Word(list) => words(list),
        Shape::Kind(family) => words(&catalogue.names(family)),
        Shape::Flag => words(&["true", "false"]),
        Shape::Whole(least, most) if least == most => format!("`{least}`"),
        Shape::Whole(least, most) => say(
            &format!("whole number, {least} to {most}"),
            &format!("número entero, de {least} a {most}"),
        ),
        Shape::Span(least, most) => say(
            &format!("duration, {} to {}", span_text(least), span_text(most)),
            &format!("duración, de {} a {}", span_text(least), span_text(most)),
        ),
        Shape::SignedSpan => say("duration", "duración"),
        Shape::Env => say("name of a variable", "nombre de una variable"),
        Shape::UrlRoot => say(
            "URL without credentials, query or fragment",
            "URL sin credenciales, consulta ni fragmento",
        ),
        Shape::Url => say("URL without credentials", "URL sin credenciales"),
        Shape::UrlPath => say("path beginning with `/`", "ruta que empieza por `/`"),
        Shape::Listen => say("IP address and port", "dirección IP y puerto"),
        Shape::File => say(
            "path; a relative one starts from the file's folder",
            "ruta; una relativa parte de la carpeta del fichero",
        ),
        Shape::TimeOfDay => "`HH:MM`".to_owned(),
        Shape::HostPort => say("host or `host:port`", "host o `host:puerto`"),
        Shape::HostName => say("host name", "nombre de host"),
        Shape::Header => say("name of a header", "nombre de una cabecera"),
        Shape::SenderId => say("id in quotes", "id entre comillas"),
        Shape::SingleWord(most) => say(
            &format!("one word, up to {most} characters"),
            &format!("una palabra, hasta {most} caracteres"),
        ),
        Shape::List(of, least, most) => {
            let inner = value(catalogue, *of, language);
            match least {
                0 => say(
                    &format!("list of: {inner}; up to {most}"),
                    &format!("lista de: {inner}; hasta {most}"),
                ),
                _ => say(
                    &format!("list of: {inner}; {least} to {most}"),
                    &format!("lista de: {inner}; de {least} a {most}"),
                ),
            }
        }
        Shape::Object(_) | Shape::Extended(..) => say("object", "objeto"),
        Shape::PerTool(_) => say("object by name of tool", "objeto por nombre de herramienta"),
        Shape::Open => say("object with any keys", "objeto con cualesquiera claves"),
        Shape::Either(shapes) => shapes
            .iter()
            .map(|shape| value(catalogue, *shape, language))
            .collect::<Vec<_>>()
            .join(&say(", or ", ", o ")),
    }
}
