"""A server that speaks chat completions and misbehaves as planned; run as a process of its own by test_endpoints.

It answers with the digest of the question, so that every answer can be told from every other, and logs each request
as one JSON line: question, number of the attempt, what was done, how many requests were open, seconds since the start.
"""

import hashlib
import json
import re
import socket
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = ("none", "slow", "429", "500", "dropped", "invalid", "half")


def answer_to(question: str) -> str:
    """Return what the server answers to a question: no figure, no citation of another."""
    letters = hashlib.sha256(question.encode()).hexdigest().translate(str.maketrans("0123456789", "ghijklmnop"))
    return f"Es {letters} [1]."


class Handler(BaseHTTPRequestHandler):
    """Answer chat completions; the plan of the server says which requests go wrong, and how."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        question = re.search(r"Pregunta: (.*)\n", body["messages"][-1]["content"])[1]
        with self.server.lock:
            self.server.attempts[question] += 1
            self.server.open += 1
            attempt = self.server.attempts[question]
        fault = self.server.fault(question, attempt)
        try:
            self.log(question, attempt, fault, body)
            self.act(fault, question)
        finally:
            with self.server.lock:
                self.server.open -= 1

    def act(self, fault, question):
        completion = {
            "choices": [{"message": {"role": "assistant", "content": answer_to(question)}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": len(question), "completion_tokens": 7},
        }
        data = json.dumps(completion).encode()
        if fault == "slow":
            time.sleep(self.server.plan["slow"])
        elif fault == "dropped":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        elif fault == "half":
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        elif fault == "invalid":
            data = b'{"choices": [{"message": '
        elif fault == "redirect":
            self.reply(307, b"", {"location": "http://192.0.2.1/v1/chat/completions"})
            return
        elif fault.isdigit():
            told = {"error": {"message": f"no luck with {self.headers.get('authorization')}"}}
            self.reply(int(fault), json.dumps(told).encode(), self.server.plan.get("headers", {}))
            return
        time.sleep(self.server.plan.get("takes", 0))
        self.reply(200, data, {})

    def reply(self, status, data, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log(self, question, attempt, fault, body):
        line = {"question": question, "attempt": attempt, "fault": fault, "open": self.server.open,
                "at": time.monotonic() - self.server.started, "authorization": self.headers.get("authorization"),
                "fields": sorted(body)}  # fmt: skip
        with self.server.lock:
            self.server.stream.write(json.dumps(line) + "\n")
            self.server.stream.flush()

    def log_message(self, *args):
        """Say nothing on stderr."""


class Server(ThreadingHTTPServer):
    """Holds the plan: ``first`` gives the fault of each question's first attempts, ``always`` that of every attempt."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, plan, log):
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan, self.stream = plan, open(log, "a", encoding="utf-8")  # noqa: PTH123, SIM115
        self.lock, self.open, self.attempts, self.started = threading.Lock(), 0, Counter(), time.monotonic()

    def fault(self, question, attempt):
        if fault := self.plan.get("always", {}).get(question):
            return fault
        first = self.plan.get("first", {}).get(question, [])
        if self.plan.get("mixed") and attempt == 1:
            return FAULTS[int(re.search(r"\d+", question)[0]) % len(FAULTS)]
        return first[attempt - 1] if attempt <= len(first) else "none"

    def handle_error(self, request, client_address):
        """A client that hung up is no news."""


if __name__ == "__main__":
    server = Server(json.loads(sys.argv[1]), sys.argv[2])
    print(server.server_address[1], flush=True)
    server.serve_forever()
