-- +goose NO TRANSACTION
-- +goose Up
-- Migration 97 has replaced this table. Within a transaction, SQLite would keep all that is dropped in memory.
DROP TABLE IF EXISTS earlier_likenesses;
