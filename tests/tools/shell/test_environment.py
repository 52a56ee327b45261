"""Which variables of the host a command gets."""

import pytest

from unspool.tools.shell.environment import command_env

SECRET = {
    "OPENAI_API_KEY": "x",
    "ANTHROPIC_API_KEY": "x",
    "GH_TOKEN": "x",
    "GITHUB_TOKEN": "x",
    "NPM_TOKEN": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_PROFILE": "x",
    "CLIENT_SECRET": "x",
    "DB_PASSWORD": "x",
    "PGPASSWORD": "x",
    "MYSQL_PWD": "x",
    "GOOGLE_APPLICATION_CREDENTIALS": "/x.json",
    "SSH_KEY": "x",
    "apikey": "x",
    "SESSION_COOKIE": "x",
    "GITHUB_PAT": "x",
    "CI_JOB_JWT": "x",
    "SENTRY_DSN": "https://0a1b@o1.example/2",
    "SLACK_WEBHOOK_URL": "x",
    "githubToken": "x",
    "STORAGE_CONNECTION_STRING": "x",
    "OP_SESSION_my": "x",
    "DATABASE_URL": "postgres://me:pw@host/db",
    "HTTPS_PROXY": "http://user:pw@proxy:1",
    "HARMLESS": "sk-ant-api03-" + "aB3" * 30,
}
PLAIN = {
    "PATH": "/bin",
    "HOME": "/home/x",
    "LANG": "C",
    "PWD": "/",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "KEYBOARD": "x",
    "MONKEY": "x",
    "TOKENIZERS_PARALLELISM": "false",
    "http_proxy": "http://proxy:1",
    "PASSENGER": "x",
    "AUTHOR": "x",
    "PATH_INFO": "x",
    "XDG_SESSION_ID": "1",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus",
    "GIT_AUTHOR_NAME": "x",
    "GCP": "x",
}


@pytest.mark.parametrize("name", SECRET)
def test_a_secret_is_passed_only_where_it_is_named(name: str) -> None:
    host = {name: SECRET[name], "X": "1"}
    assert name not in command_env({}, host)
    assert command_env({}, host)["X"] == "1"
    assert command_env({name: "given"}, host)[name] == "given"


@pytest.mark.parametrize("name", PLAIN)
def test_other_variables_are_passed(name: str) -> None:
    assert command_env({}, {name: PLAIN[name]})[name] == PLAIN[name]


def test_nothing_asks_or_pages() -> None:
    env = command_env({}, {"PAGER": "less", "TERM": "xterm", "BASH_ENV": "/x", "SSH_ASKPASS": "/x"})
    assert (env["PAGER"], env["GIT_PAGER"], env["TERM"], env["GIT_TERMINAL_PROMPT"]) == (
        "cat",
        "cat",
        "dumb",
        "0",
    )
    assert not {"BASH_ENV", "SSH_ASKPASS"} & set(env)
    assert command_env({"PAGER": "less"}, {})["PAGER"] == "less"
