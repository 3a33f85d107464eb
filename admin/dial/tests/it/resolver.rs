//! Resolver with scripted answers.

use async_trait::async_trait;
use millrace_dial::Resolver;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Gives answers in this order for any name, and the last one for ever.
pub struct Scripted {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Scripted {
    pub fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parsed = |answer: &&[&str]| {
            let addresses = answer.iter().map(|text| text.parse().unwrap());
            addresses.collect()
        };
        Arc::new(Self {
            answers: Mutex::new(answers.iter().map(parsed).collect()),
            asked: Mutex::default(),
        })
    }

    /// Gives this answer from now on.
    pub fn say(&self, answer: Vec<IpAddr>) {
        *self.answers.lock().unwrap() = [answer].into();
    }

    /// Names that were looked up.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Resolver for Scripted {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 {
            answers.pop_front()
        } else {
            answers.front().cloned()
        };
        answer.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
