//! Answers remembered under idempotency keys, and nothing else of the store.
//!
//! No act of anyone: a key is claimed before the request is judged, and the answer is kept sealed. So whoever keeps
//! them gets this handle and not the [`Store`].

use model::Millis;

use crate::{Store, StoreError};

/// What is remembered under an idempotency key.
#[derive(Debug, PartialEq, Eq)]
pub enum Remembered {
    /// Nothing was: the caller goes on, and tells the answer afterwards.
    Fresh,
    /// The first request is under way, or its daemon died: its outcome is not known here.
    Pending,
    /// Another request used the key.
    Another,
    /// The first answer, sealed.
    Answer(u16, Vec<u8>),
}

/// The answers of a store.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a>(&'a Store);

impl Store {
    /// The answers remembered under idempotency keys.
    #[must_use]
    pub fn answers(&self) -> Answers<'_> {
        Answers(self)
    }
}

impl Answers<'_> {
    /// Claims an idempotency key for a request, or tells what it gave before.
    pub async fn claim_key(
        &self,
        who: &str,
        key: &str,
        request: &str,
        forget: Millis,
    ) -> Result<Remembered, StoreError> {
        let mut tx = self.0.engine.write().await?;
        tx.exec("DELETE FROM idempotency WHERE at < $1", &[forget.into()]).await?;
        let sql = "INSERT INTO idempotency (who, key, request, at, status) VALUES ($1, $2, $3, $4, 0) ON CONFLICT DO NOTHING";
        let args = [who.into(), key.into(), request.into(), self.0.clock.now().into()];
        let fresh = tx.exec(sql, &args).await? == 1;
        let sql = "SELECT request, status, answer FROM idempotency WHERE who = $1 AND key = $2";
        let row = tx.row(sql, &[who.into(), key.into()]).await?;
        tx.commit().await?;
        let Some(row) = row.filter(|_| !fresh) else { return Ok(Remembered::Fresh) };
        if row.text(0)? != request {
            return Ok(Remembered::Another);
        }
        match (u16::try_from(row.int(1)?), row.opt_blob(2)?) {
            (Ok(status), Some(answer)) if status > 0 => Ok(Remembered::Answer(status, answer.to_vec())),
            _ => Ok(Remembered::Pending),
        }
    }

    /// Keeps the first answer under its key.
    pub async fn keep_answer(
        &self,
        who: &str,
        key: &str,
        status: u16,
        answer: Vec<u8>,
    ) -> Result<(), StoreError> {
        let mut tx = self.0.engine.write().await?;
        let sql = "UPDATE idempotency SET status = $3, answer = $4 WHERE who = $1 AND key = $2";
        tx.exec(sql, &[who.into(), key.into(), i64::from(status).into(), answer.into()]).await?;
        Ok(tx.commit().await?)
    }

    /// Gives a key back, when its request was refused before it could do anything.
    pub async fn free_key(&self, who: &str, key: &str) -> Result<(), StoreError> {
        let mut tx = self.0.engine.write().await?;
        tx.exec(
            "DELETE FROM idempotency WHERE who = $1 AND key = $2 AND status = 0",
            &[who.into(), key.into()],
        )
        .await?;
        Ok(tx.commit().await?)
    }
}
