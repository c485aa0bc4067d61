//! Builds changes into a file, each behind a switch of its own.
//!
//! An expression becomes `(if switch(7) { changed } else { itself })`, where "itself" may hold more switches and
//! "changed" is as in the source, because one change at a time is switched on. What is changed stands between `/*7<*/` and
//! `/*>7*/`: if the compiler complains in there, the change cannot be built.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use anyhow::{Result, anyhow};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Block, Expr, ExprBinary, ExprStruct, ExprUnary, ImplItemConst, ImplItemFn, ItemConst, ItemFn, ItemStatic, Pat,
    PatGuard, Signature, TraitItemFn, Type,
};

use crate::source::Source;
use crate::{Genre, Mutant};

/// What the root of each crate is given.
pub(crate) const SWITCH: &str = r#"
/// Whether this change is switched on.
#[doc(hidden)]
#[inline]
pub(crate) fn mutant_switch(number: u32) -> bool {
    static CHOSEN: std::sync::LazyLock<u32> =
        std::sync::LazyLock::new(|| std::env::var("MUTANT").ok().and_then(|it| it.parse().ok()).unwrap_or(u32::MAX));
    *CHOSEN == number
}
"#;

/// Returns the file with these changes built in, those that can be, and adds their numbers.
pub(crate) fn weave(source: &Source, mutants: &[(usize, &Mutant)], built_in: &mut Vec<usize>) -> Result<String> {
    let file = syn::parse_file(source.text()).map_err(|error| anyhow!("it cannot be read: {error}"))?;
    let mut places: HashMap<_, Vec<Change<'_>>> = HashMap::new();
    for &(number, mutant) in mutants {
        let stretch = source.stretch(&mutant.span)?;
        places.entry((mutant.genre, stretch.start)).or_default().push((number, stretch, &mutant.replacement));
    }
    let mut weaver = Weaver { source, places, opening: BTreeMap::new(), closing: BTreeMap::new(), built_in };
    weaver.visit_file(&file);
    Ok(weaver.woven())
}

fn switch(number: usize) -> String {
    format!("crate::mutant_switch({number})")
}

/// A change's number, what it replaces, and by what.
type Change<'a> = (usize, Range<usize>, &'a str);

struct Weaver<'a> {
    source: &'a Source,
    /// The changes that are not built in yet.
    places: HashMap<(Genre, usize), Vec<Change<'a>>>,
    /// What stands before the byte at which something begins, and before the one at which something has ended.
    opening: BTreeMap<usize, String>,
    closing: BTreeMap<usize, String>,
    built_in: &'a mut Vec<usize>,
}

impl Weaver<'_> {
    /// Begins an expression that these changes change. Whoever calls it must end it.
    fn begin(&mut self, expression: &Range<usize>, changes: Vec<Change<'_>>) {
        let mut text = "(".to_owned();
        for (number, within, replacement) in changes {
            let changed = self.source.with(expression.clone(), within, replacement);
            text += &format!("if {} {{ /*{number}<*/{changed}/*>{number}*/ }} else ", switch(number));
            self.built_in.push(number);
        }
        self.opening.entry(expression.start).or_default().push_str(&(text + "{ "));
    }

    fn end(&mut self, expression: &Range<usize>) {
        self.closing.entry(expression.end).or_default().push_str(" })");
    }

    /// Visits an expression that has something that may be changed at this place.
    fn expression(&mut self, genre: Genre, at: usize, whole: Range<usize>, visit: impl FnOnce(&mut Self)) {
        match self.places.remove(&(genre, at)) {
            Some(changes) => {
                self.begin(&whole, changes);
                visit(self);
                self.end(&whole);
            }
            None => visit(self),
        }
    }

    /// Visits a function; one whose value is changed returns at once.
    fn function(&mut self, signature: &Signature, body: &Block) {
        if signature.constness.is_some() {
            return;
        }
        let begin = body.stmts.first().map_or(0, |first| first.span().byte_range().start);
        // What is hidden behind an `impl` is one type, and the replacement would be a second one.
        let hidden = self.source.text()[signature.output.span().byte_range()].contains("impl ");
        let changes = if hidden { None } else { self.places.remove(&(Genre::FnValue, begin)) };
        for (number, _, replacement) in changes.unwrap_or_default() {
            let switched = format!("if {} {{ /*{number}<*/return {replacement};/*>{number}*/ }} ", switch(number));
            self.opening.entry(begin).or_default().push_str(&switched);
            self.built_in.push(number);
        }
        self.visit_block(body);
    }

    fn woven(&self) -> String {
        let text = self.source.text();
        let mut places: Vec<usize> = self.opening.keys().chain(self.closing.keys()).copied().collect();
        places.sort_unstable();
        places.dedup();
        let (mut woven, mut done) = (String::new(), 0);
        for at in places {
            woven += &text[done..at];
            woven += self.closing.get(&at).map_or("", String::as_str);
            woven += self.opening.get(&at).map_or("", String::as_str);
            done = at;
        }
        woven + &text[done..]
    }
}

impl<'ast> Visit<'ast> for Weaver<'_> {
    fn visit_expr_binary(&mut self, it: &'ast ExprBinary) {
        if binds(&it.left) || binds(&it.right) {
            return visit::visit_expr_binary(self, it);
        }
        let at = it.op.span().byte_range().start;
        self.expression(Genre::BinaryOperator, at, it.span().byte_range(), |weaver| {
            visit::visit_expr_binary(weaver, it)
        });
    }

    fn visit_expr_unary(&mut self, it: &'ast ExprUnary) {
        let at = it.op.span().byte_range().start;
        self.expression(Genre::UnaryOperator, at, it.span().byte_range(), |weaver| visit::visit_expr_unary(weaver, it));
    }

    fn visit_expr_struct(&mut self, it: &'ast ExprStruct) {
        let whole = it.span().byte_range();
        let fields = it.fields.iter().map(|field| field.span().byte_range().start);
        let changes: Vec<_> = fields.filter_map(|at| self.places.remove(&(Genre::StructField, at))).flatten().collect();
        if changes.is_empty() {
            return visit::visit_expr_struct(self, it);
        }
        self.begin(&whole, changes);
        visit::visit_expr_struct(self, it);
        self.end(&whole);
    }

    /// An arm that is switched off does not match.
    fn visit_arm(&mut self, it: &'ast Arm) {
        let gone = self.places.remove(&(Genre::MatchArm, it.span().byte_range().start));
        let gone = gone.and_then(|changes| changes.first().map(|change| change.0));
        self.built_in.extend(gone);
        let off = gone.map(|number| format!("!{}", switch(number)));
        if let Pat::Guard(PatGuard { guard, .. }) = &it.pat {
            let stretch = guard.span().byte_range();
            if let Some(off) = &off {
                self.opening.entry(stretch.start).or_default().push_str(&format!("{off} && ("));
            }
            self.expression(Genre::MatchArmGuard, stretch.start, stretch.clone(), |weaver| weaver.visit_expr(guard));
            if off.is_some() {
                self.closing.entry(stretch.end).or_default().push(')');
            }
        } else if let Some(off) = off {
            self.closing.entry(it.pat.span().byte_range().end).or_default().push_str(&format!(" if {off}"));
        }
        self.visit_expr(&it.body);
    }

    fn visit_item_fn(&mut self, it: &'ast ItemFn) {
        self.function(&it.sig, &it.block);
    }

    fn visit_impl_item_fn(&mut self, it: &'ast ImplItemFn) {
        self.function(&it.sig, &it.block);
    }

    fn visit_trait_item_fn(&mut self, it: &'ast TraitItemFn) {
        if let Some(body) = &it.default {
            self.function(&it.sig, body);
        }
    }

    // What the compiler works out cannot ask for a switch.
    fn visit_item_const(&mut self, _: &'ast ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast ImplItemConst) {}
    fn visit_item_static(&mut self, _: &'ast ItemStatic) {}
    fn visit_type(&mut self, _: &'ast Type) {}
}

/// Whether a condition binds names for what stands behind it: it cannot be moved into an expression of its own.
fn binds(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(it) => binds(&it.left) || binds(&it.right),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stretch;

    /// Weaves changes of this kind, each of which replaces the first such text behind the last one's.
    fn woven(text: &str, changes: &[(Genre, &str, &str)]) -> (String, Vec<usize>) {
        let source = Source::new(text.to_owned());
        let (mut after, mut mutants) = (0, Vec::new());
        for &(genre, old, new) in changes {
            let start = after + text[after..].find(old).expect("the text is there");
            let span = Stretch { start: source.place(start), end: source.place(start + old.len()) };
            mutants.push(Mutant { file: String::new(), genre, span, replacement: new.to_owned() });
            after = start;
        }
        let mut built_in = Vec::new();
        let numbered: Vec<_> = mutants.iter().enumerate().collect();
        let woven = weave(&source, &numbered, &mut built_in).expect("it can be read");
        let woven = woven.replace("crate::mutant_switch", "on");
        (woven, built_in)
    }

    #[track_caller]
    fn check(text: &str, changes: &[(Genre, &str, &str)], expected: &str) {
        assert_eq!(woven(text, changes).0, expected);
    }

    #[test]
    fn an_expression_is_chosen_by_its_switches() {
        check(
            "fn f() { a < b; }",
            &[(Genre::BinaryOperator, "<", "=="), (Genre::BinaryOperator, "<", ">")],
            "fn f() { (if on(0) { /*0<*/a == b/*>0*/ } else if on(1) { /*1<*/a > b/*>1*/ } else { a < b }); }",
        );
        check(
            "fn f() { é += 1; }",
            &[(Genre::BinaryOperator, "+=", "-=")],
            "fn f() { (if on(0) { /*0<*/é -= 1/*>0*/ } else { é += 1 }); }",
        );
    }

    #[test]
    fn within_an_expression_that_is_not_changed_others_are() {
        check(
            "fn f() { !a && b }",
            &[(Genre::UnaryOperator, "!", ""), (Genre::BinaryOperator, "&&", "||")],
            "fn f() { (if on(1) { /*1<*/!a || b/*>1*/ } else { (if on(0) { /*0<*/a/*>0*/ } else { !a }) && b }) }",
        );
    }

    #[test]
    fn a_changed_function_returns_at_once() {
        check(
            "impl A { fn f(&self) -> u8 {\n    g()\n} }",
            &[(Genre::FnValue, "g()", "0"), (Genre::FnValue, "g()", "1")],
            "impl A { fn f(&self) -> u8 {\n    if on(0) { /*0<*/return 0;/*>0*/ } if on(1) { /*1<*/return 1;/*>1*/ } g()\n} }",
        );
    }

    #[test]
    fn arms_and_their_guards_are_switched_off() {
        check(
            "fn f() { match a { B if yes => 1, C => 2, _ => 3 } }",
            &[
                (Genre::MatchArm, "B if yes => 1,", ""),
                (Genre::MatchArmGuard, "yes", "true"),
                (Genre::MatchArm, "C => 2,", ""),
            ],
            "fn f() { match a { B if !on(0) && ((if on(1) { /*1<*/true/*>1*/ } else { yes })) => 1, C if !on(2) => 2, _ => 3 } }",
        );
    }

    #[test]
    fn a_field_is_left_out() {
        check(
            "fn f() -> A { A { b: 1, ..c } }",
            &[(Genre::StructField, "b: 1,", "")],
            "fn f() -> A { (if on(0) { /*0<*/A {  ..c }/*>0*/ } else { A { b: 1, ..c } }) }",
        );
    }

    #[test]
    fn what_cannot_be_switched_is_left_alone() {
        for (text, change) in [
            ("const A: u8 = 1 << 2;", (Genre::BinaryOperator, "<<", ">>")),
            ("const fn f() -> bool { true }", (Genre::FnValue, "true", "false")),
            ("fn f() -> [u8; 2 * B] { g() }", (Genre::BinaryOperator, "*", "+")),
            ("fn f() { if let Some(a) = b && a {} }", (Genre::BinaryOperator, "&&", "||")),
            ("fn f() -> impl Iterator<Item = u8> { g() }", (Genre::FnValue, "g()", "::std::iter::empty()")),
        ] {
            assert_eq!(woven(text, &[change]), (text.to_owned(), Vec::new()));
        }
    }
}
