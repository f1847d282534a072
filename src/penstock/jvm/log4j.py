"""What a JVM that we start has to say goes to a file that rolls over."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

NOT_QUIET: Mapping[str, str] = MappingProxyType({})
_TEXT = """\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d{{yyyy-MM-dd HH:mm:ss.SSS}}] %p %enc{{%m}}{{CRLF}} (%c)%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = {files}
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
"""


def log4j_properties(log: Path, *, level: str, files: int, quiet: Mapping[str, str] = NOT_QUIET) -> str:
    """Write the settings: this many files of 10 MB beside the current one; loggers that have a level of their own."""
    of_quiet = [
        line
        for number, (name, its_level) in enumerate(quiet.items())
        for line in (f"logger.quiet{number}.name = {name}\n", f"logger.quiet{number}.level = {its_level}\n")
    ]
    return _TEXT.format(log=log, level=level, files=files) + "".join(of_quiet)
