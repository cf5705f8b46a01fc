-- Labels that nothing counted has any more end: also those of before labels had an open
-- day, and of visits whose retention is over.

-- +goose Up

-- When the site's labels were last looked through; null: never.
alter table rollup_sites add column labels_trimmed_at timestamptz;
select show_columns('rollup_sites', '{labels_trimmed_at}');

-- +goose Down
alter table rollup_sites drop column labels_trimmed_at;
