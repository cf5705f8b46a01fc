-- Posts can be changed and deleted.

-- +goose Up
grant update, delete on posts to waypost_app;

-- +goose Down
revoke update, delete on posts from waypost_app;
