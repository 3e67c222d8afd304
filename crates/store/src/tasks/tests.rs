//! Whose turn it is, over sessions and people.

use std::sync::Arc;

use model::{RepoId, SessionId, SystemClock, TaskId, UserId, WorktreeId};

use crate::Store;
use crate::backup::tests::kit;
use crate::engine::{Engine, Value};

/// A store with one worktree, and people with sessions that each have tasks that wait.
struct Scene {
    store: Store,
    worktree: WorktreeId,
    last: i64,
}

impl Scene {
    async fn on(engine: Engine) -> Self {
        let store = Store::start(engine, Arc::new(SystemClock)).await.unwrap();
        let (worktree, repo) = (WorktreeId::random(), RepoId::random());
        let mut scene = Self { store, worktree, last: 0 };
        let maker = scene.person().await;
        let made_by: Value = maker.to_string().into();
        let id: Value = repo.to_string().into();
        let sql = "INSERT INTO repos (id, seq, name, origin, created_by, created_at) VALUES ($1, 1, 'r', 'x', $2, 0)";
        scene.does(sql, &[id.clone(), made_by.clone()]).await;
        let sql = "INSERT INTO worktrees (id, seq, repo, name, about, tier, created_by, created_at) \
                   VALUES ($1, 1, $2, 'w', '', 'session', $3, 0)";
        scene.does(sql, &[worktree.to_string().into(), id, made_by]).await;
        scene
    }

    async fn does(&self, sql: &'static str, args: &[Value]) {
        let mut tx = self.store.engine.write().await.unwrap();
        tx.exec(sql, args).await.unwrap();
        tx.commit().await.unwrap();
    }

    fn next(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    async fn person(&mut self) -> UserId {
        let (id, seq) = (UserId::random(), self.next());
        let sql = "INSERT INTO users (id, seq, name, role, enabled, version, password, totp_step, created_at) \
                   VALUES ($1, $2, 'n', 'member', 1, 1, '', 0, 0)";
        self.does(sql, &[id.to_string().into(), seq.into()]).await;
        id
    }

    async fn session(&mut self, of: UserId) -> SessionId {
        let (id, seq) = (SessionId::random(), self.next());
        let sql = "INSERT INTO sessions (id, seq, worktree, creator, agent, title, command, steps, created_at) \
                   VALUES ($1, $2, $3, $4, 'a', 't', '[]', 0, 0)";
        let args =
            [id.to_string().into(), seq.into(), self.worktree.to_string().into(), of.to_string().into()];
        self.does(sql, &args).await;
        id
    }

    async fn task(&mut self, session: SessionId, of: UserId, state: &str) -> TaskId {
        let (id, seq) = (TaskId::random(), self.next());
        let sql = "INSERT INTO tasks (id, seq, session, asked_by, state, shown, epoch, claim, why, created_at) \
                   VALUES ($1, $2, $3, $4, $5, '', 1, '', '', 0)";
        let args = [
            id.to_string().into(),
            seq.into(),
            session.to_string().into(),
            of.to_string().into(),
            state.into(),
        ];
        self.does(sql, &args).await;
        id
    }

    async fn waiting(&self, most: i64) -> Vec<TaskId> {
        self.store.waiting_tasks(most, 0).await.unwrap().into_iter().map(|one| one.task).collect()
    }
}

/// SES-01: everybody's first comes before anybody's second, however much one of them asked for before; of a session only the first in
/// line counts, and none while something of it is at work.
#[tokio::test]
async fn ses_01_everybody_s_first_is_before_anybody_s_second() {
    for made in kit::both().await {
        let mut scene = Scene::on(made.engine.clone()).await;
        let (ana, bo, cy) = (scene.person().await, scene.person().await, scene.person().await);
        let mut hers = Vec::new();
        for _ in 0..20 {
            let session = scene.session(ana).await;
            hers.push(scene.task(session, ana, "queued").await);
            scene.task(session, ana, "queued").await;
        }
        let mut his = Vec::new();
        for _ in 0..2 {
            let session = scene.session(bo).await;
            his.push(scene.task(session, bo, "queued").await);
        }
        let session = scene.session(cy).await;
        let theirs = scene.task(session, cy, "queued").await;
        assert_eq!(scene.waiting(3).await, [hers[0], his[0], theirs], "there is room for three");
        assert_eq!(scene.waiting(5).await, [hers[0], his[0], theirs, hers[1], his[1]]);
        let all = scene.waiting(100).await;
        assert_eq!(all.len(), 23, "the first of each session");
        assert_eq!(all[5..], hers[2..], "the rest is hers, in order");
        let behind: Vec<TaskId> =
            scene.store.waiting_tasks(100, 20).await.unwrap().into_iter().map(|one| one.task).collect();
        assert_eq!(behind, all[20..], "behind those that were looked at");

        // Who asks in a session of somebody else's has their own place.
        let shared = scene.session(ana).await;
        let asked = scene.task(shared, cy, "queued").await;
        assert_eq!(scene.waiting(6).await, [hers[0], his[0], theirs, hers[1], his[1], asked]);
        let busy = scene.session(cy).await;
        scene.task(busy, cy, "running").await;
        scene.task(busy, cy, "queued").await;
        assert_eq!(scene.waiting(100).await.len(), 24, "one at work keeps the others of its session waiting");
        let held: Value = session.to_string().into();
        scene.does("UPDATE sessions SET held = 'stopped' WHERE id = $1", &[held]).await;
        assert!(!scene.waiting(100).await.contains(&theirs), "one that is held is left out");
    }
}
