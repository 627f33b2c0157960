-- +goose Up
-- Whatever a restored ledger holds was noted before it was restored, also where the
-- clock was ahead then: a time after that moment would make an old list, or an old
-- request without an answer, pass for one of after the restore.
-- +goose StatementBegin
CREATE TRIGGER ledger_restored AFTER UPDATE OF restored_at ON ledger BEGIN
  UPDATE passes SET started_at = new.restored_at WHERE started_at > new.restored_at;
  UPDATE changes SET updated_at = new.restored_at WHERE state IN ('frozen', 'unknown') AND updated_at > new.restored_at;
END;
-- +goose StatementEnd
