//! Makes a direct script of its text.
//!
//! Invariants: what is accepted is valid Lua 5.1 with the same meaning there; names are looked up
//! among the local variables first, as Lua does; the nodes, their depth and the variables of a
//! script are bounded.

use super::lexer::{Lexer, Token};
use super::{Binary, Branch, Direct, Expression, List, Returned, Statement, Unary};

/// The most statements and expressions. Each calls one command at most, and Lua is asked about the
/// time less often than that.
const NODES_MAX: usize = 256;

/// How deep they may lie in each other.
const DEPTH_MAX: usize = 24;

/// How many local variables may be there at once.
pub(super) const LOCALS_MAX: usize = 16;

/// An operator binds what stands before it less than this binds.
const UNARY_BINDS: u8 = 8;

const KEYWORDS: [&[u8]; 21] = [
    b"and",
    b"break",
    b"do",
    b"else",
    b"elseif",
    b"end",
    b"false",
    b"for",
    b"function",
    b"if",
    b"in",
    b"local",
    b"nil",
    b"not",
    b"or",
    b"repeat",
    b"return",
    b"then",
    b"true",
    b"until",
    b"while",
];

/// Reads a whole script; `None` if there is anything in it that is not known here.
pub(super) fn parse(source: &[u8]) -> Option<Direct> {
    let mut lexer = Lexer::new(source);
    let token = lexer.next()?;
    let mut parser = Parser { lexer, token, lines: 0, locals: Vec::new(), nodes: 0, depth: 0 };
    let body = parser.block()?;
    let memory = parser.nodes * size_of::<Statement>() + source.len();
    (parser.token == Token::End).then_some(Direct { body, memory })
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    /// The number of line ends before the word that came before `token`.
    lines: usize,
    locals: Vec<&'a [u8]>,
    nodes: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> Option<Token<'a>> {
        self.lines = self.lexer.lines();
        let next = self.lexer.next()?;
        Some(std::mem::replace(&mut self.token, next))
    }

    /// Goes on if that comes next; whether it did.
    fn accept(&mut self, token: Token<'_>) -> Option<bool> {
        let is_next = self.token == token;
        if is_next {
            self.advance()?;
        }
        Some(is_next)
    }

    fn expect(&mut self, token: Token<'_>) -> Option<()> {
        self.accept(token)?.then_some(())
    }

    fn accept_sign(&mut self, sign: &[u8]) -> Option<bool> {
        self.accept(Token::Sign(sign))
    }

    fn expect_sign(&mut self, sign: &[u8]) -> Option<()> {
        self.expect(Token::Sign(sign))
    }

    fn expect_word(&mut self, word: &[u8]) -> Option<()> {
        self.expect(Token::Word(word))
    }

    /// One more node, one deeper while `work` goes on.
    fn node<T>(&mut self, work: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.nodes += 1;
        self.depth += 1;
        if self.nodes > NODES_MAX || self.depth > DEPTH_MAX {
            return None;
        }
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// Statements up to a word that ends them, or the end; their variables end with them.
    fn block(&mut self) -> Option<Box<[Statement]>> {
        let known = self.locals.len();
        let mut statements = Vec::new();
        loop {
            if let Token::Word(b"end" | b"else" | b"elseif") | Token::End = self.token {
                break;
            }
            let statement = self.node(Self::statement)?;
            let is_last = matches!(statement, Statement::Return(_));
            statements.push(statement);
            self.accept_sign(b";")?;
            if is_last {
                break;
            }
        }
        self.locals.truncate(known);
        Some(statements.into())
    }

    fn statement(&mut self) -> Option<Statement> {
        match self.token {
            Token::Word(b"local") => {
                self.advance()?;
                let name = self.name()?;
                let value =
                    if self.accept_sign(b"=")? { self.expression(0)? } else { Expression::Nil };
                // The name is not known before its value is.
                let slot = self.locals.len();
                self.locals.push(name);
                (slot < LOCALS_MAX).then_some(Statement::Set(slot, value))
            }
            Token::Word(b"if") => self.branches(),
            Token::Word(b"return") => {
                self.advance()?;
                Some(Statement::Return(self.returned()?))
            }
            Token::Word(_) => {
                let name = self.name()?;
                if let Some(slot) = self.local(name) {
                    self.expect_sign(b"=")?;
                    return Some(Statement::Set(slot, self.expression(0)?));
                }
                self.call(name).map(Statement::Call)
            }
            _ => None,
        }
    }

    fn branches(&mut self) -> Option<Statement> {
        let mut branches = Vec::new();
        loop {
            // `if` or `elseif`
            self.advance()?;
            let condition = Some(self.expression(0)?);
            self.expect_word(b"then")?;
            branches.push(Branch { condition, body: self.block()? });
            if self.token != Token::Word(b"elseif") {
                break;
            }
        }
        if self.accept(Token::Word(b"else"))? {
            branches.push(Branch { condition: None, body: self.block()? });
        }
        self.expect_word(b"end")?;
        Some(Statement::If(branches.into()))
    }

    fn returned(&mut self) -> Option<Returned> {
        if let Token::Word(b"end" | b"else" | b"elseif") | Token::End | Token::Sign(b";") =
            self.token
        {
            return Some(Returned::Value(Expression::Nil));
        }
        if !self.accept_sign(b"{")? {
            return Some(Returned::Value(self.expression(0)?));
        }
        let mut elements = Vec::new();
        while !self.accept_sign(b"}")? {
            // The word might be a field's name, which is no element.
            elements.push(self.expression(0)?);
            if !self.accept_sign(b",")? {
                self.expect_sign(b"}")?;
                break;
            }
        }
        Some(Returned::List(elements.into()))
    }

    /// An expression of operators that bind more than `limit`.
    fn expression(&mut self, limit: u8) -> Option<Expression> {
        self.node(|parser| {
            let mut left = parser.operand()?;
            while let Some((operator, binds_left, binds_right)) = operator(parser.token)
                && binds_left > limit
            {
                parser.advance()?;
                let right = parser.expression(binds_right)?;
                left = Expression::Binary(operator, Box::new((left, right)));
            }
            Some(left)
        })
    }

    fn operand(&mut self) -> Option<Expression> {
        let unary = match self.token {
            Token::Word(b"not") => Unary::Not,
            Token::Sign(b"-") => Unary::Negative,
            Token::Sign(b"#") => Unary::Length,
            _ => return self.simple(),
        };
        self.advance()?;
        if unary == Unary::Length
            && let Token::Word(name) = self.token
            && let Some(list) = self.list(name)
            && self.lexer.clone().next()? != Token::Sign(b"[")
        {
            self.advance()?;
            return Some(Expression::Count(list));
        }
        Some(Expression::Unary(unary, Box::new(self.expression(UNARY_BINDS)?)))
    }

    fn simple(&mut self) -> Option<Expression> {
        let constant = match self.token {
            Token::Number(number) => Expression::Number(number),
            Token::Text(text) => Expression::Text(text.into()),
            Token::Word(b"nil") => Expression::Nil,
            Token::Word(b"true") => Expression::Boolean(true),
            Token::Word(b"false") => Expression::Boolean(false),
            _ => return self.indexed(),
        };
        self.advance()?;
        Some(constant)
    }

    /// A name, a call or something in parentheses, and perhaps numbers of elements behind it.
    fn indexed(&mut self) -> Option<Expression> {
        let mut value = if self.accept_sign(b"(")? {
            let value = self.expression(0)?;
            self.expect_sign(b")")?;
            value
        } else {
            let name = self.name()?;
            self.named(name)?
        };
        while self.accept_sign(b"[")? {
            let index = self.node(|parser| parser.expression(0))?;
            self.expect_sign(b"]")?;
            value = Expression::Index(Box::new((value, index)));
        }
        // What goes on in another way, a field or a call of what was called.
        let goes_on = matches!(self.token, Token::Sign(b"." | b"(" | b"{") | Token::Text(_));
        (!goes_on).then_some(value)
    }

    fn named(&mut self, name: &[u8]) -> Option<Expression> {
        if let Some(slot) = self.local(name) {
            return Some(Expression::Local(slot));
        }
        if let Some(list) = self.list(name) {
            self.expect_sign(b"[")?;
            let Token::Number(number) = self.advance()? else { return None };
            self.expect_sign(b"]")?;
            let index = number as usize;
            let is_index = index >= 1 && index as f64 == number;
            return is_index.then(|| Expression::Element(list, index - 1));
        }
        if name == b"tonumber" {
            self.open_call()?;
            let value = self.expression(0)?;
            self.expect_sign(b")")?;
            return Some(Expression::ToNumber(Box::new(value)));
        }
        self.call(name).map(Expression::Call)
    }

    /// What a command is made of, behind the name `redis`.
    fn call(&mut self, name: &[u8]) -> Option<Box<[Expression]>> {
        if !matches!(name, b"redis" | b"server") {
            return None;
        }
        self.expect_sign(b".")?;
        self.expect_word(b"call")?;
        self.open_call()?;
        let mut arguments = vec![self.expression(0)?];
        while self.accept_sign(b",")? {
            arguments.push(self.expression(0)?);
        }
        self.expect_sign(b")")?;
        Some(arguments.into())
    }

    /// A parenthesis behind what is called; Lua wants both in one line.
    fn open_call(&mut self) -> Option<()> {
        let is_in_line = self.lines == self.lexer.lines();
        self.expect_sign(b"(")?;
        is_in_line.then_some(())
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        let Token::Word(name) = self.advance()? else { return None };
        (!KEYWORDS.contains(&name)).then_some(name)
    }

    fn local(&self, name: &[u8]) -> Option<usize> {
        self.locals.iter().rposition(|local| *local == name)
    }

    fn list(&self, name: &[u8]) -> Option<List> {
        match name {
            _ if self.local(name).is_some() => None,
            b"KEYS" => Some(List::Keys),
            b"ARGV" => Some(List::Arguments),
            _ => None,
        }
    }
}

/// An operator between two values, and how much it binds the one before and the one behind it.
fn operator(token: Token<'_>) -> Option<(Binary, u8, u8)> {
    Some(match token {
        Token::Word(b"or") => (Binary::Or, 1, 1),
        Token::Word(b"and") => (Binary::And, 2, 2),
        Token::Sign(b"==") => (Binary::Equal, 3, 3),
        Token::Sign(b"~=") => (Binary::Unequal, 3, 3),
        Token::Sign(b"<") => (Binary::Less, 3, 3),
        Token::Sign(b"<=") => (Binary::LessOrEqual, 3, 3),
        Token::Sign(b">") => (Binary::Greater, 3, 3),
        Token::Sign(b">=") => (Binary::GreaterOrEqual, 3, 3),
        Token::Sign(b"..") => (Binary::Concatenate, 5, 4),
        Token::Sign(b"+") => (Binary::Add, 6, 6),
        Token::Sign(b"-") => (Binary::Subtract, 6, 6),
        Token::Sign(b"*") => (Binary::Multiply, 7, 7),
        Token::Sign(b"/") => (Binary::Divide, 7, 7),
        Token::Sign(b"%") => (Binary::Modulo, 7, 7),
        _ => return None,
    })
}
