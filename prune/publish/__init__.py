"""Publishing: a final name is a public claim, "this checkpoint is whole", and it is made last.

file.py one file · directory.py a directory · stream.py the file that is handed out · helper.py its thread ·
claim.py one writer at a time · writer.py who that is · install.py the last steps · target.py where it goes ·
tree.py a directory's files on disk
"""

from prune.callable_module import make_callable
from prune.publish.directory import publish_directory, recover_staging
from prune.publish.file import publish
from prune.publish.stream import PartFile
from prune.publish.writer import Writer, is_alive, writer_of

__all__ = ["PartFile", "Writer", "is_alive", "publish", "publish_directory", "recover_staging", "writer_of"]

make_callable(__name__)
