-- What this database is: one row.

-- +goose Up

-- compatible_from is the oldest schema, by the version of its newest migration,
-- whose programs work on this one. A migration that takes something away from
-- them raises it, so that a program that lacks the migration is told so:
--     update installation set compatible_from = 18;
-- One that only adds leaves it alone. Programs from before this table serve no
-- newer schema at all.
-- dev_since is when dev took the database for its own; null says that it is none
-- of dev's business.
create table installation (
    one_row         boolean     primary key default true check (one_row),
    compatible_from bigint      not null,
    dev_since       timestamptz
);
insert into installation (compatible_from) values (0);

grant select on installation to waypost_app;

-- +goose Down
drop table installation;
