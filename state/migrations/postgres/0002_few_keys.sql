-- +goose Up
-- A list of keys is short: one, or those of a page. Without a number the planner takes a thousand for granted, and reads
-- whole tables for a single key as long as they are not very large.
ALTER FUNCTION json_each(text) ROWS 16;
