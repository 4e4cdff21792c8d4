"""A selector over an in-process grid: what is applied, what everybody learns, what a bad client can do (nothing)."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")
import torch
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedselect.availability import Trace
from fedselect.availability.independent import Independent
from fedselect.clock import Clock, ClockSettings, Devices
from fedselect.integrations.flower import DroppedOut, LocalGrid, SelectorStrategy, Update, client_app
from fedselect.rounds.protocol import Outcome, Selection
from fedselect.rounds.scenario import World
from fedselect.selectors import PowerOfChoice, Uniform
from fedselect.training.server import Server
from fedselect.training.settings import TrainingSettings

N, D = 4, 3
START = np.array([1.0, -2.0, 0.5], dtype=np.float32)


def delta(client: int, round: int) -> np.ndarray:
    """What client k answers in round t: exact in float32, and different for everyone."""
    return np.array([client + 1, 10 * (client + 1), round + 1], dtype=np.float32)


class Steady:
    """A client that always answers `delta`."""

    def __init__(self, client):
        self.client = client

    def train(self, weights, round):
        return Update(delta(self.client, round), loss=0.5 + self.client, received_loss=0.25, samples=10)

    def loss(self, weights):
        return float(self.client)


class Fixed:
    """Select the same clients with the same weights, and remember what it is told."""

    def __init__(self, clients, weights, on_failure="keep"):
        self.selection = Selection(clients, weights, on_failure=on_failure)
        self.seen, self.told = [], []

    def select(self, round):
        self.seen.append(round)
        there = round.available[self.selection.clients]
        return Selection(
            self.selection.clients[there], self.selection.weights[there], on_failure=self.selection.on_failure
        )

    def update(self, feedback):
        self.told.append(feedback)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def partition(context) -> int:
    return int(context.node_config["partition-id"])


def honest() -> ClientApp:
    return client_app(lambda context: Steady(partition(context)))


def everyone(on_failure="keep") -> Fixed:
    return Fixed(range(N), [0.5, 0.25, 2.0, -1.0], on_failure)


def play(selector, grid, rounds=1, availability=None, patience=0.0, clock=None):
    """Play rounds; return the strategy and the records."""
    records = []
    availability = availability or Independent(np.ones(N), 0)
    server = Server(selector, World(np.full(N, 10), availability, clock=clock), torch.from_numpy(START))
    strategy = SelectorStrategy(server, on_round=records.append, timeout=5, patience=patience)
    strategy.run(grid, rounds)
    return strategy, records


def expected(weights: dict[int, float], round: int = 0, start=START) -> np.ndarray:
    """The model w + Σ a_i Δ_i, summed in client order in float32 as the loop does it."""
    total = np.zeros(D, dtype=np.float32)
    for client in sorted(weights):
        total += np.float32(weights[client]) * delta(client, round)
    return start + total


class Validating(Steady):
    """A client that holds samples out: of client 2 that cannot be said, and of others it falls with the model."""

    def validation_loss(self, weights):
        if self.client == 2:
            raise ValueError("nothing is held out")
        return float(10 * self.client + weights[2])


def test_clients_that_hold_samples_out_give_a_validation_loss_after_evaluated_rounds():
    records, sizes = [], np.array([10, 20, 30, 40])
    world = World(sizes, Independent(np.ones(N), 0))
    server = Server(everyone(), world, torch.from_numpy(START), settings=TrainingSettings(evaluate_every=2))
    grid = LocalGrid(client_app(lambda context: Validating(partition(context))), N)
    strategy = SelectorStrategy(server, on_round=records.append, timeout=5, patience=0, validate=True)
    result = strategy.run(grid, 3)
    assert ["metrics" in record for record in records] == [False, True, True]  # every second, and the last
    last = server.weights[2]  # of the new model
    found = records[2]["metrics"]["validation_loss"]
    assert found == pytest.approx((10 * (0 + last) + 20 * (10 + last) + 40 * (30 + last)) / 70, rel=1e-6)
    (fault,) = records[2]["faults"]
    assert (fault["client"], "nothing is held out" in fault["reason"]) == (2, True)
    assert result.train_metrics_clientapp[3]["validation_loss"] == found
    assert 1 not in {t for t, each in result.train_metrics_clientapp.items() if "validation_loss" in each}


# -- ordinary rounds -----------------------------------------------------------------------------------------------


class Shuffled(LocalGrid):
    """Answers arrive in another order in every round."""

    def send_and_receive(self, messages, *, timeout=None):
        replies = list(super().send_and_receive(messages, timeout=timeout))
        return [replies[place] for place in np.random.default_rng(len(replies)).permutation(len(replies))]


def test_weights_are_absolute_and_arrival_changes_no_bit():
    selector = everyone()
    strategy, records = play(selector, Shuffled(honest(), N))
    assert strategy.server.weights.tobytes() == expected({0: 0.5, 1: 0.25, 2: 2.0, 3: -1.0}).tobytes()
    assert records[0]["returned"] == [0, 1, 2, 3]
    assert records[0]["applied"] == [0.5, 0.25, 2.0, -1.0]
    assert records[0]["faults"] == []
    told = selector.told[0]
    assert told.losses == {k: 0.5 + k for k in range(N)}
    assert told.received_losses == dict.fromkeys(range(N), 0.25)
    assert told.norms == pytest.approx({k: float(np.linalg.norm(delta(k, 0))) for k in range(N)})
    assert {k: v.tolist() for k, v in told.updates.items()} == {k: delta(k, 0).tolist() for k in range(N)}


def test_who_is_late_on_the_clock_is_missing_however_soon_it_answers():
    """Ten samples at 1 s, 1 s, 9 s and 1 s each, and 12 bytes in no time: client 2 is late at 20 s."""
    devices = Devices([1.0, 1.0, 9.0, 1.0], np.full(N, 1e9), np.full(N, 1e9))
    clock = Clock(devices, np.full(N, 10), ClockSettings("deadline", 20.0))
    selector = everyone()
    strategy, records = play(selector, LocalGrid(honest(), N), rounds=2, clock=clock)
    assert strategy.server.world.clock.model_bytes == START.nbytes
    assert [record["seconds"] for record in records] == [20.0, 40.0]
    assert records[0]["missing"] == [2]
    assert records[0]["applied"] == [0.5, 0.25, 0.0, -1.0]
    assert selector.told[0].durations == dict.fromkeys((0, 1, 3), 10.0)
    first = expected({0: 0.5, 1: 0.25, 3: -1.0})
    assert strategy.server.weights.tobytes() == expected({0: 0.5, 1: 0.25, 3: -1.0}, 1, first).tobytes()


def test_all_five_outcomes_reach_the_selector():
    class Mixed(Steady):
        def train(self, weights, round):
            if self.client == 2:
                raise RuntimeError("disk full")
            if self.client == 3:
                raise DroppedOut("battery empty")
            return super().train(weights, round)

    clients = 6
    selector = Fixed([1, 2, 3], [1.0, 1.0, 1.0])
    there = Trace(np.array([[True, True, True, True, False, True]]))
    server = Server(selector, World(np.full(clients, 10), there), torch.from_numpy(START))
    records = []
    strategy = SelectorStrategy(server, on_round=records.append, timeout=5, patience=0)
    grid = LocalGrid(client_app(lambda context: Mixed(partition(context))), clients - 1)  # client 5 never connects
    strategy.run(grid, 1)
    outcomes = [
        Outcome.IDLE,
        Outcome.RETURNED,
        Outcome.FAILED,
        Outcome.MISSING,
        Outcome.UNAVAILABLE,
        Outcome.UNAVAILABLE,
    ]
    assert selector.told[0].outcomes.tolist() == outcomes
    assert records[0]["available"] == [0, 1, 2, 3]
    faults = {fault["client"]: (fault["code"], fault["reason"]) for fault in records[0]["faults"]}
    assert faults == {2: (2, "RuntimeError: disk full"), 3: (101, "battery empty")}
    assert list(records[0]["client_seconds"]) == [str(client) for client in records[0]["returned"]]
    assert all(seconds >= 0 for seconds in records[0]["client_seconds"].values())
    assert all(fault["at"].startswith("20") and fault["node"] for fault in records[0]["faults"])


@pytest.mark.parametrize(("policy", "scale"), [("keep", 1.0), ("renormalise", 2.0)])
def test_weights_of_the_failed_go_as_the_selection_says(policy, scale):
    class Half(Steady):
        def train(self, weights, round):
            if self.client >= 2:
                raise DroppedOut
            return super().train(weights, round)

    selector = Fixed(range(N), [0.25] * N, policy)
    strategy, records = play(selector, LocalGrid(client_app(lambda context: Half(partition(context))), N))
    assert records[0]["applied"] == [0.25 * scale, 0.25 * scale, 0, 0]
    assert np.array_equal(strategy.server.weights, expected({0: 0.25 * scale, 1: 0.25 * scale}))


def test_rounds_pass_with_nobody():
    """Nobody selected, zero weights, nobody connected, nobody back: the round is played, and the model stays."""

    class Gone(Steady):
        def train(self, weights, round):
            raise DroppedOut

    cases = {
        "nobody selected": (Fixed([], []), LocalGrid(honest(), N), [0, 1, 2, 3]),
        "zero weights": (Fixed([0, 1], [0.0, 0.0]), LocalGrid(honest(), N), [0, 1, 2, 3]),
        "nobody connected": (everyone("renormalise"), LocalGrid(honest(), 0), []),
        "nobody back": (everyone("renormalise"), LocalGrid(client_app(lambda c: Gone(partition(c))), N), [0, 1, 2, 3]),
    }
    for selector, grid, available in cases.values():
        strategy, records = play(selector, grid, rounds=2)
        assert np.array_equal(strategy.server.weights, START)
        assert [record["round"] for record in records] == [0, 1]
        assert [record["available"] for record in records] == [available] * 2
        assert len(selector.told) == 2


def test_available_is_connected_and_willing():
    mask = np.array([[True, False, True, True], [False, True, True, True]])
    grid = LocalGrid(honest(), 3)  # client 3 is not connected
    _, records = play(Uniform(4), grid, rounds=2, availability=Trace(mask))
    assert [record["available"] for record in records] == [[0, 2], [1, 2]]


# -- clients that lie, and answers that are not what was asked -----------------------------------------------------


def answering(wrong: int, reply) -> ClientApp:
    """Everyone is honest but client ``wrong``, whose answers to training ``reply(message, context)`` makes."""
    plain, app = honest(), ClientApp()

    @app.query()
    def query(message, context):
        return plain(message, context)

    @app.train()
    def train(message, context):
        return reply(message) if partition(context) == wrong else plain(message, context)

    return app


def content(update=None, **numbers):
    """An answer of client 1 in round 0, with some things changed."""
    metrics = {"client": 1, "round": 0, "loss": 0.5, "received-loss": 0.5} | numbers
    array = Array(delta(1, 0)) if update is None else update
    return RecordDict({"metrics": MetricRecord(metrics), "arrays": ArrayRecord({"update": array})})


@pytest.mark.parametrize(("said", "kept"), [(2.5, {"1": 2.5}), (-1.0, {}), (float("nan"), {}), (None, {})])
def test_seconds_that_a_client_says_are_kept_where_they_can_be(said, kept):
    numbers = {} if said is None else {"seconds": said}
    app = answering(1, lambda message: Message(content(**numbers), reply_to=message))
    _, records = play(Fixed([1], [1.0]), LocalGrid(app, 4), rounds=1)
    assert records[0]["returned"] == [1]
    assert records[0]["client_seconds"] == kept


def array(values, dtype=np.float32) -> Array:
    return Array(np.asarray(values, dtype=dtype))


BAD = {
    "nan": (content(array([1, np.nan, 2])), "its update is not finite"),
    "infinite": (content(array([1, np.inf, 2])), "its update is not finite"),
    "too long": (content(array([1, 2, 3, 4])), r"has shape \(4,\) and type float32; accepted is \(3,\) and float32"),
    "a matrix": (content(array([[1, 2, 3]])), r"has shape \(1, 3\)"),
    "double precision": (content(array([1, 2, 3], np.float64)), r"type float64; accepted is \(3,\) and float32"),
    "no number": (content(array(["a", "b", "c"], np.str_)), "type <U1; accepted"),
    "garbage": (
        content(Array(dtype="float32", shape=(3,), stype="numpy.ndarray", data=b"\x93NUMPYx")),
        "cannot be read",
    ),
    "pickle": (content(Array(dtype="object", shape=(3,), stype="numpy.ndarray", data=b"\x80\x04N.")), "cannot be read"),
    "empty": (RecordDict(), "it answers round None; this is round 0"),
    "no update": (RecordDict({"metrics": content()["metrics"]}), "its answer has no update"),
    "nan loss": (content(loss=float("nan")), "its loss is nan; accepted is a finite number"),
    "loss beyond single precision": (content(loss=1e300), "its loss is 1e\\+300; accepted is a finite number"),
    "no loss": (RecordDict({"metrics": MetricRecord({"client": 1, "round": 0})}), "its loss is None"),
    "another's name": (content(client=2), "it answers as client 2; client 1 was asked"),
    "an old answer": (content(round=-1), "it answers round -1; this is round 0"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_answers_are_refused_and_the_round_goes_on(kind):
    bad, sentence = BAD[kind]
    selector = everyone()
    app = answering(1, lambda message: Message(bad, reply_to=message))
    strategy, records = play(selector, LocalGrid(app, N))
    assert selector.told[0].outcomes.tolist() == [Outcome.RETURNED, Outcome.FAILED, Outcome.RETURNED, Outcome.RETURNED]
    assert set(selector.told[0].losses) == {0, 2, 3}
    assert np.array_equal(strategy.server.weights, expected({0: 0.5, 2: 2.0, 3: -1.0}))
    (fault,) = records[0]["faults"]
    assert fault["client"] == 1
    assert re.search(sentence, fault["reason"]), fault["reason"]


@pytest.mark.parametrize("value", [3e38, 1e6])
def test_one_update_does_not_destroy_the_model(value):
    """The attacker is named and counted once; the honest go on, and the model is theirs."""

    def attack(message):
        round = int(message.metadata.group_id)
        return Message(
            content(array([value] * 3) if round == 1 else array(delta(1, round)), round=round), reply_to=message
        )

    strategy, records = play(everyone(), LocalGrid(answering(1, attack), N), rounds=3)
    assert [record["failed"] for record in records] == [[], [1], []]
    (fault,) = (fault for record in records for fault in record["faults"])
    assert fault["client"] == 1
    assert "accepted is at most" in fault["reason"]
    assert fault["reason"] == records[1]["refused"]["1"]
    after = expected({0: 0.5, 1: 0.25, 2: 2.0, 3: -1.0})
    after = expected({0: 0.5, 2: 2.0, 3: -1.0}, 1, after)
    assert np.array_equal(strategy.server.weights, expected({0: 0.5, 1: 0.25, 2: 2.0, 3: -1.0}, 2, after))


def test_a_traceback_becomes_its_last_line():
    reason = "\x1b[36mray::ClientAppActor.run()\x1b[39m\n  File ...\nValueError: no such file\n\n"
    _, records = play(everyone(), LocalGrid(answering(1, lambda m: Message(Error(2, reason), reply_to=m)), N))
    assert records[0]["faults"][0]["reason"] == "ValueError: no such file"
    assert records[0]["failed"] == [1]


class Meddling(LocalGrid):
    """Let a test change what comes back in one round of training."""

    def __init__(self, app, partitions, meddle, round=0):
        super().__init__(app, partitions)
        self.meddle, self.round = meddle, round
        self.earlier = []

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        replies = list(super().send_and_receive(messages, timeout=timeout))
        if not messages or messages[0].metadata.message_type != "train":
            return replies
        if messages[0].metadata.group_id == str(self.round):
            replies = self.meddle(self, replies)
        self.earlier = replies
        return replies


def asked(reply) -> Message:
    """The message that was answered, as far as another answer to it needs."""
    message = Message(RecordDict(), reply.metadata.src_node_id, "train")
    message.metadata.__dict__["_message_id"] = reply.metadata.reply_to_message_id
    return message


def test_a_duplicate_counts_once():
    strategy, records = play(
        everyone(), Meddling(honest(), N, lambda grid, replies: [*replies, replies[2], replies[2]])
    )
    assert np.array_equal(strategy.server.weights, expected({0: 0.5, 1: 0.25, 2: 2.0, 3: -1.0}))
    assert records[0]["returned"] == [0, 1, 2, 3]
    assert [(f["client"], f["reason"]) for f in records[0]["faults"]] == [
        (2, "another answer to the same message; the first one counts")
    ] * 2


def test_a_good_answer_after_a_bad_one_is_too_late():
    """What counts is the first answer: a client cannot try until one is accepted."""

    def both(grid, replies):
        return [replies[0], Message(Error(2, "oops"), reply_to=asked(replies[1])), *replies[1:]]

    _, records = play(everyone(), Meddling(honest(), N, both))
    assert records[0]["failed"] == [1]
    assert [fault["client"] for fault in records[0]["faults"]] == [1, 1]


def test_a_late_answer_is_named_and_left_out():
    """Client 3 answers round 0 during round 1, beside its answer to round 1."""
    held = []

    def hold(grid, replies):
        held.append(replies.pop(3))
        return replies

    class Late(Meddling):
        def send_and_receive(self, messages, *, timeout=None):
            messages = list(messages)
            replies = super().send_and_receive(messages, timeout=timeout)
            return [*held, *replies] if messages and messages[0].metadata.group_id == "1" else replies

    strategy, records = play(everyone(), Late(honest(), N, hold), rounds=2)
    assert records[0]["missing"] == [3]
    assert [(f["client"], f["reason"]) for f in records[0]["faults"]] == [(3, "no answer within 5 s")]
    assert records[1]["returned"] == [0, 1, 2, 3]
    (fault,) = records[1]["faults"]
    assert (fault["client"], fault["reason"]) == (3, "a late answer, to a message of round 0; this is round 1")
    first = expected({0: 0.5, 1: 0.25, 2: 2.0})
    assert np.array_equal(strategy.server.weights, expected({0: 0.5, 1: 0.25, 2: 2.0, 3: -1.0}, 1, first))


@pytest.mark.parametrize("kind", ["update", "error"])
def test_an_answer_in_anothers_place_counts_for_nobody(kind):
    """Client 2 answers the message to client 1, and comes first: it can neither speak nor fail for client 1."""

    def forge(grid, replies):
        error = Message(Error(2, "oops"), reply_to=asked(replies[1]))
        forged = Message(content(), reply_to=asked(replies[1])) if kind == "update" else error
        forged.metadata.__dict__["_src_node_id"] = replies[2].metadata.src_node_id
        return [forged, *replies]

    strategy, records = play(everyone(), Meddling(honest(), N, forge))
    assert np.array_equal(strategy.server.weights, expected({0: 0.5, 1: 0.25, 2: 2.0, 3: -1.0}))
    (fault,) = records[0]["faults"]
    assert (fault["client"], fault["reason"]) == (2, "an answer in the place of client 1")


def test_errors_of_the_superlink_are_found_by_message():
    """A node goes between being asked and answering: the SuperLink answers in its own name (source 1)."""

    class Fragile(LocalGrid):
        def push_messages(self, messages):
            if messages and messages[0].metadata.message_type == "train":
                self.disconnect(messages[2].metadata.dst_node_id)
            return super().push_messages(messages)

        def pull_messages(self, message_ids):
            replies = super().pull_messages(message_ids)
            self.sources = [reply.metadata.src_node_id for reply in replies] or self.sources
            return replies

    selector, grid = everyone(), Fragile(honest(), N)
    _, records = play(selector, grid)
    assert grid.sources == [1001, 1002, 1, 1004]
    assert selector.told[0].outcomes.tolist()[2] == Outcome.MISSING
    assert [(f["client"], f["code"]) for f in records[0]["faults"]] == [(2, 5)]


def test_the_start_waits_for_all_and_later_rounds_for_one():
    """Nodes come one by one, and all go at once after the first round; one of them comes back."""

    class Hesitant(LocalGrid):
        def get_node_ids(self):
            self.calls = getattr(self, "calls", -1) + 1
            if self.calls < N:
                self.connect(self.calls)
            if self.calls == N:
                self._contexts.clear()
            if self.calls == N + 1:
                self.connect(2)
            return super().get_node_ids()

    _, records = play(everyone(), Hesitant(honest(), 0), rounds=2, patience=60)
    assert [record["available"] for record in records] == [[0, 1, 2, 3], [2]]


# -- who is who ----------------------------------------------------------------------------------------------------


def named(names) -> ClientApp:
    """Nodes that say they are ``names[partition]``, whatever their configuration says."""
    return client_app(lambda context: Steady(names[partition(context)]))


def test_a_restarted_node_keeps_its_client():
    class Restarting(LocalGrid):
        def get_node_ids(self):
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls == 2:  # between the rounds
                self.disconnect(1003)
                assert self.connect(2) != 1003
            return super().get_node_ids()

    strategy, records = play(everyone(), Restarting(honest(), N), rounds=2)
    assert [record["returned"] for record in records] == [[0, 1, 2, 3]] * 2
    assert strategy.roster.nodes[2] != 1003


def test_a_restarted_node_waits_until_its_old_connection_is_given_up():
    class Lingering(LocalGrid):
        """The old node stays listed for a round after its process has died, as on a SuperLink."""

        def get_node_ids(self):
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls == 2:
                self.connect(2)
            if self.calls == 3:
                self.disconnect(1003)
            return super().get_node_ids()

        def _answer(self, message):
            if self.calls >= 2 and message.metadata.dst_node_id == 1003:
                return Message(Error(5, "the node is gone"), reply_to=message)
            return super()._answer(message)

    _, records = play(everyone(), Lingering(honest(), N), rounds=3)
    assert [record["missing"] for record in records] == [[], [2], []]
    reasons = [fault["reason"] for fault in records[1]["faults"]]
    assert reasons == ["it says it is client 2, but node 1003 already is", "the node is gone"]


def test_of_two_that_claim_one_client_none_is_believed():
    _, records = play(everyone(), LocalGrid(named([0, 1, 1, 3]), N))
    assert records[0]["returned"] == [0, 3]
    assert records[0]["available"] == [0, 3]
    faults = records[0]["faults"]
    assert [fault["node"] for fault in faults] == [1002, 1003]
    assert all("it says it is client 1, but 1 other node" in fault["reason"] for fault in faults)


def test_who_came_first_keeps_its_client():
    class Intruded(LocalGrid):
        def get_node_ids(self):
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls == 2:
                self.connect(4)
            return super().get_node_ids()

    strategy, records = play(everyone(), Intruded(named([0, 1, 2, 3, 2]), N), rounds=3)
    assert [record["returned"] for record in records] == [[0, 1, 2, 3]] * 3
    assert strategy.roster.nodes[2] == 1003
    assert [len(record["faults"]) for record in records] == [0, 1, 0]  # named once


@pytest.mark.parametrize("name", [N, -1, 2.5, "two", True])
def test_ids_that_are_no_clients_are_refused(name):
    _, records = play(everyone(), LocalGrid(named([0, 1, name, 3]), N))
    assert records[0]["returned"] == [0, 1, 3]
    (fault,) = records[0]["faults"]
    assert fault["node"] == 1003
    assert fault["reason"] == f"it says it is client {name!r}; accepted is a whole number from 0 to 3"


def test_a_node_that_cannot_say_who_it_is_is_asked_again():
    times = []

    def make(context):
        if partition(context) == 2:
            times.append(1)
            if len(times) == 1:
                raise OSError("data not mounted")
        return Steady(partition(context))

    _, records = play(everyone(), LocalGrid(client_app(make), N), rounds=2)
    assert [record["returned"] for record in records] == [[0, 1, 3], [0, 1, 2, 3]]
    assert records[0]["faults"][0]["reason"] == "it could not say who it is: OSError: data not mounted"


class Mute(LocalGrid):
    """Node 1003 does not answer questions of identity before it has been asked so many times, or released."""

    def __init__(self, app, partitions, deaf=10**9):
        super().__init__(app, partitions)
        self.questions, self.deaf, self.held, self.released = 0, deaf, [], False

    def push_messages(self, messages):
        messages = list(messages)
        mine = [m for m in messages if m.metadata.message_type == "query" and m.metadata.dst_node_id == 1003]
        self.questions += len(mine)
        heard = self.questions > self.deaf
        ids = super().push_messages(messages)
        for message in mine if not heard else ():
            self.held.append((message.metadata.message_id, self._replies.pop(message.metadata.message_id)))
        return ids

    def pull_messages(self, message_ids):
        while self.released and self.held:
            name, reply = self.held.pop()
            self._replies[name] = reply
        return super().pull_messages(message_ids)


def mute(grid, rounds, on_round=None, timeout=0.2):
    records = []
    server = Server(everyone(), World(np.full(N, 10), Independent(np.ones(N), 0)), torch.from_numpy(START))
    strategy = SelectorStrategy(
        server,
        on_round=lambda record: (records.append(record), on_round and on_round(record)),
        timeout=1e6,  # what a silent node must not cost: the test would not end
        identity_timeout=timeout,
        patience=0.0,
    )
    strategy.run(grid, rounds)
    return strategy, records


def test_a_silent_node_is_waited_for_once_and_asked_ever_more_seldom(monkeypatch):
    waits = []
    monkeypatch.setattr("fedselect.integrations.flower.roster.time.sleep", waits.append)
    grid = Mute(honest(), N)
    after = []
    _, records = mute(grid, 40, on_round=lambda record: after.append((len(waits), grid.questions)))
    assert all(record["returned"] == [0, 1, 3] for record in records)
    assert after[0][0] > 0  # waited for in the first round, and never again
    assert {count for count, _ in after} == {after[0][0]}
    asked = [questions for _, questions in after]
    assert [round for round in range(1, 40) if asked[round] > asked[round - 1]] == [1, 3, 7, 15, 31]
    faults = [fault for record in records for fault in record["faults"]]
    assert [(fault["node"], fault["reason"]) for fault in faults] == [
        (1003, "it did not say who it is within 0.2 s; it joins when it does")
    ]


def test_a_silent_node_joins_when_it_answers():
    """Its late answer to the first question counts; so does one to a later question, the first being lost."""
    late = Mute(honest(), N)

    def release(record):
        late.released = record["round"] == 1

    _, records = mute(late, 4, on_round=release, timeout=0.05)
    assert [record["returned"] for record in records] == [[0, 1, 3]] * 2 + [[0, 1, 2, 3]] * 2
    lost = Mute(honest(), N, deaf=2)
    strategy, records = mute(lost, 6, timeout=0.05)
    assert [len(record["returned"]) for record in records] == [3, 3, 3, 4, 4, 4]
    assert strategy.roster.nodes[2] == 1003


def test_no_round_passes_while_connected_nodes_are_still_starting():
    """Node 1003 alone is connected, and answers when it has been looked at for the sixth time."""

    class Loading(Mute):
        looked = 0

        def get_node_ids(self):
            self.looked += 1
            self.released = self.looked > 5
            return [1003]

    grid = Loading(honest(), N)
    _, records = mute(grid, 2, timeout=0.05)
    assert grid.looked == 7
    assert [record["returned"] for record in records] == [[2], [2]]
    assert [len(record["faults"]) for record in records] == [1, 0]


def test_nobody_can_say_who_another_node_is():
    class Forged(LocalGrid):
        def pull_messages(self, message_ids):
            replies = super().pull_messages(message_ids)
            for reply in replies:
                if reply.metadata.message_type == "query" and reply.metadata.src_node_id == 1003:
                    reply.metadata.__dict__["_src_node_id"] = 1002
            return replies

    _, records = mute(Forged(honest(), N), 1, timeout=0.05)
    assert records[0]["returned"] == [0, 1, 3]


# -- selectors that ask for losses ---------------------------------------------------------------------------------


def test_losses_are_probed_by_message():
    """Power-of-choice with everyone a candidate takes the largest losses, here the highest numbers."""
    _, records = play(PowerOfChoice(2, candidates=N), LocalGrid(honest(), N))
    assert records[0]["selected"] == [2, 3]


def test_a_client_that_does_not_answer_the_probe_is_not_there():
    class Shy(Steady):
        def loss(self, weights):
            if self.client == 3:
                raise RuntimeError("out of memory")
            return float("nan") if self.client == 2 else super().loss(weights)

    grid = LocalGrid(client_app(lambda context: Shy(partition(context))), N)
    _, records = play(PowerOfChoice(2, candidates=N), grid)
    assert records[0]["available"] == [0, 1]
    assert records[0]["selected"] == [0, 1]
    assert [(fault["client"], fault["reason"]) for fault in records[0]["faults"]] == [
        (2, "when asked for its loss: its loss is nan; accepted is a finite number"),
        (3, "when asked for its loss: RuntimeError: out of memory"),
    ]
