"""A generator of your own, without any model: it answers with the first sentence of the first fragment, and cites it.

Whatever has ``identity`` and ``answer(request)`` is a generator. Name it in ``ragfin.toml``:
``[model]`` with ``name = "own_generator:FirstSentence"``.
"""

from ragfin.records import Answer, Identity


class FirstSentence:
    """Answer with the first sentence of the best chunk's body."""

    host = "localhost"  # where the text goes; without this line the command asks before it runs
    identity = Identity("first-sentence", "", "none", {})  # what the answers depend on, besides the prompt

    def answer(self, request):
        """Return the answer to one request; a failure would be `Answer.failure(request, reason)`."""
        fragment = request.messages[-1].content.partition("\n\n")[2]  # what follows the header of [1]
        return Answer.parse(request, fragment.partition("\n")[0].partition(". ")[0] + " [1]", "stop")
