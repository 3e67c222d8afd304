use access::{DeleteWorktree, Permit};
use model::WorktreeId;

fn alter(permit: &mut Permit<DeleteWorktree>) {
    permit.act.worktree = WorktreeId::random();
}

fn main() {}
