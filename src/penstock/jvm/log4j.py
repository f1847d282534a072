"""What a JVM that we start has to say goes to a file that rolls over."""

from pathlib import Path

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


def log4j_properties(log: Path, *, level: str, files: int, quiet: tuple[str, ...] = ()) -> str:
    """Write the settings: this many files of 10 MB beside the current one; of quiet loggers, warnings and errors."""
    of_quiet = [
        line
        for number, name in enumerate(quiet)
        for line in (f"logger.quiet{number}.name = {name}\n", f"logger.quiet{number}.level = warn\n")
    ]
    return _TEXT.format(log=log, level=level, files=files) + "".join(of_quiet)
