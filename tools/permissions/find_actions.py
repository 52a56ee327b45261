"""What ``find`` runs for what it finds."""

from collections.abc import Sequence

from .inner import Inner, Wrapped, filled
from .shell_plan import Unreadable, Word, names

_FIND_VALUES = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -newer -anewer -cnewer -newermt "
    "-size -type -xtype -mtime -mmin -ctime -cmin -atime -amin -user -group -uid -gid -perm -maxdepth -mindepth "
    "-printf -regextype -inum -links -samefile -fprint -fprint0 -fls -used -fstype"
)
_FIND_FLAGS = names(
    "-print -print0 -prune -o -a -not -and -or ! ( ) , -depth -d -L -H -P -follow -xdev -mount -empty -executable "
    "-readable -writable -ls -quit -true -false -nouser -nogroup -daystart -noleaf -warn -nowarn"
)


def find_actions(words: Sequence[Word], more_words: bool) -> Wrapped:
    """Word by word, so that no value passes for an action, nor an action for a value."""
    inner: list[Inner] = []
    at = 1
    while at < len(words):
        text = words[at].text
        if text in _FIND_VALUES:
            if at + 1 < len(words) and words[at + 1].splits:
                raise Unreadable("an argument of find may be an action")
            at += 1
        elif text in ("-execdir", "-okdir"):
            raise Unreadable("find runs something in directories that the line doesn't say")
        elif text in ("-exec", "-ok"):
            end = _action_end(words, at + 1)
            inner.append(Inner(tuple(filled(one, "{}") for one in words[at + 1 : end])))
            at = end
        elif text == "-delete":
            inner.append(Inner((Word("rm", "rm"), Word("{}", None))))
        elif (text is None and not words[at].is_argument) or (
            text and text[0] == "-" and text not in _FIND_FLAGS
        ):
            raise Unreadable("an argument of find may be an action")
        at += 1
    if more_words:
        raise Unreadable("find with arguments from elsewhere")
    return Wrapped(tuple(inner))


def _action_end(words: Sequence[Word], start: int) -> int:
    for i in range(start, len(words)):
        if words[i].text == ";" or (words[i].text == "+" and words[i - 1].text == "{}"):
            if i == start:
                break
            return i
    raise Unreadable("find runs something unusual")
