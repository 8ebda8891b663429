//! Plugins of several replicas: each has rows of its own for what lies in its folder, and no two plugins own one name.

use sqlx::Row as _;
use sqlx_postgres::{PgConnection, PgRow};
use uuid::Uuid;

use super::{rows, sql};
use crate::{
    config::StoreConfig,
    store::{Elsewhere, PluginRow, StoreError, values::signed},
};

/// For the one lock of all adoptions.
const ADOPTING: i64 = 0x6c61_7962_7970_6c75;

/// `$1` milliseconds: how long a replica that is not heard of keeps its names.
pub(super) fn names_held() -> i64 {
    signed(StoreConfig::NAMES_HELD.0)
}

pub(super) fn elsewhere(row: &PgRow) -> Result<Elsewhere, StoreError> {
    let replica: &[u8] = row.try_get(12)?;
    let replica =
        Uuid::from_slice(replica).map_err(|e| StoreError::Corrupt(format!("a replica's name: {e}")))?;
    Ok(Elsewhere { replica, lives: row.try_get(13)?, row: rows::plugin(row)? })
}

/// Writes a row, unless a name in it belongs to another plugin, here or on a living replica: then that one's row.
pub(super) async fn adopt(
    c: &mut PgConnection,
    me: Uuid,
    row: &PluginRow,
) -> Result<Option<PluginRow>, StoreError> {
    // One at a time: two replicas that adopt two plugins with one name at once must not both find it free.
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(ADOPTING).execute(&mut *c).await?;
    let others = sqlx::query(sql::OWNERS)
        .bind(&me.as_bytes()[..])
        .bind(names_held())
        .bind(row.name.as_bytes())
        .fetch_all(&mut *c)
        .await?;
    for other in &others {
        let other = rows::plugin(other)?;
        if row.shares_name(&other) {
            return Ok(Some(other));
        }
    }
    put(c, me, row).await?;
    Ok(None)
}

pub(super) async fn put(c: &mut PgConnection, me: Uuid, row: &PluginRow) -> Result<(), StoreError> {
    let names = |names: &Vec<String>| serde_json::to_vec(names).map_err(|e| StoreError::Other(e.to_string()));
    sqlx::query(sql::SEE_REPLICA).bind(&me.as_bytes()[..]).execute(&mut *c).await?;
    sqlx::query(sql::PUT_PLUGIN)
        .bind(row.name.as_bytes())
        .bind(row.digest.as_ref().map(|d| &d.0[..]))
        .bind(row.granted.as_ref().map(|d| &d.0[..]))
        .bind(row.policy.as_bytes())
        .bind(row.without_grants)
        .bind(names(&row.tools)?)
        .bind(names(&row.prompts)?)
        .bind(names(&row.resources)?)
        .bind(names(&row.templates)?)
        .bind(row.listed.as_bytes())
        .bind(signed(row.adopted_at.0))
        .bind(row.refusal.as_ref().map(|r| r.as_bytes()))
        .bind(&me.as_bytes()[..])
        .execute(c)
        .await?;
    Ok(())
}
