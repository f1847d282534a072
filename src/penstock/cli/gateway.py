"""penstock gateway: events over HTTP into Kafka."""

import os
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import Json, print_json, say
from penstock.cli.session import session
from penstock.config.complaints import in_words
from penstock.errors import BadInput
from penstock.extras import require

TOKEN_VARIABLE = "PENSTOCK_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable


def gateway(
    context: typer.Context,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any address but the loopback requires a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8002,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the token that clients have to show; {TOKEN_VARIABLE} if left out."),
    ] = None,
    topic: Annotated[str, typer.Option(help="Topic of OpenLineage events; made if Kafka has none.")] = "input.runs",
    max_body: Annotated[str, typer.Option(help="Size of a body as it is sent; four times that inflated.")] = "16MiB",
    max_buffer: Annotated[
        str, typer.Option(help="Size of all that is being read or not acknowledged; beyond it clients get 503.")
    ] = "256MiB",
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Events a second from one address; beyond it it gets 429.")
    ] = None,
    timeout_s: Annotated[
        float, typer.Option(min=0.1, max=300, help="Seconds that Kafka has to acknowledge, before clients get 503.")
    ] = 3.0,
    certificate: Annotated[Path | None, typer.Option(help="Certificate (PEM), to serve HTTPS.")] = None,
    key: Annotated[Path | None, typer.Option(help="Key of the certificate (PEM).")] = None,
    as_json: Json = False,
) -> None:
    """Accept OpenLineage and other JSON events over HTTP, and answer when Kafka has them; until Ctrl-C."""
    require("lineage", "the gateway")
    from pydantic import ValidationError

    from penstock.lineage.gateway.options import GatewayLimits, GatewayOptions
    from penstock.lineage.gateway.serve import serve
    from penstock.quantities import parse_size_bytes
    from penstock.secret import Secret

    token = None
    if token_file is not None:
        token = Secret.parse(f"file:{token_file}")
    elif os.environ.get(TOKEN_VARIABLE):
        token = Secret.parse(f"env:{TOKEN_VARIABLE}")
    try:
        body_bytes = parse_size_bytes(max_body)
        limits = GatewayLimits(
            body_max_bytes=body_bytes,
            inflated_max_bytes=4 * body_bytes,
            buffer_max_bytes=parse_size_bytes(max_buffer),
            rate_events_per_s=rate,
            answer_timeout_s=timeout_s,
        )
        options = GatewayOptions(
            host=host,
            port=port,
            token=token,
            topic=topic,
            connect_group=session(context).settings.connect_group,
            certificate=None if certificate is None else str(certificate),
            key=None if key is None else str(key),
            limits=limits,
        )
    except ValidationError as error:
        raise BadInput(
            in_words(error.errors(include_input=False)[0]),
            safe="Nothing was started",
            fix="See: penstock gateway --help",
        ) from None
    except ValueError as error:
        raise BadInput(str(error), safe="Nothing was started") from None
    counts = serve(
        session(context).connection(),
        options,
        ready=lambda address: say(f"taking events at {address} for topic '{topic}'; stop with Ctrl-C"),
        warn=lambda text: say(f"warning: {text}"),
    )
    if as_json:
        print_json({"events": counts.events, "bytes": counts.bytes, "answers": counts.answered})
    say(f"{counts.events:,} events acknowledged by Kafka, {counts.answered:,} requests answered")
