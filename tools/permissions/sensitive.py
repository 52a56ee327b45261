"""Files that are asked about in every mode but ``bypass``, inside the workspace too.

Keys and passwords when they are read or written; what runs by itself later (hooks, start-up files of shells) when it
is written.
"""

from typing import Final

BUILT_IN: Final = "built-in"
"""The source of these rules."""

_SECRETS: Final = (
    ".env", ".env.local", ".env.*.local", ".env.development", ".env.staging", ".env.production", ".envrc",
    "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
    ".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd",
    "~/.ssh/**", "~/.gnupg/**", "~/.aws/**", "~/.kube/**", "~/.docker/config.json", "~/.config/gcloud/**",
)  # fmt: skip
_RUN_LATER: Final = (
    ".git", ".gitconfig", ".gitmodules", "**/.husky/**", ".pre-commit-config.yaml",
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zprofile", ".zshenv", ".zlogin",
    ".bash_aliases", ".zlogout", "~/.config/fish/**", "~/.config/git/**", "~/.config/systemd/**", "~/.config/autostart/**",
    "~/.jq", "~/.local/bin/**", "**/.vscode/**", "**/.idea/**", "**/.github/workflows/**",
)  # fmt: skip

SENSITIVE: Final[tuple[str, ...]] = (
    *(f"Read({path})" for path in _SECRETS),
    *(f"Edit({path})" for path in (*_SECRETS, *_RUN_LATER)),
)
"""The rules, as texts."""
