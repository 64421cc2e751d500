# SPDX-License-Identifier: Apache-2.0
"""A program with OpenAI's SDK that knows nothing of any transport: grows a conversation and prints what it was told.

Arguments: sync or async. The model's address is in OPENAI_BASE_URL.
"""

import asyncio
import json
import sys

from openai import AsyncOpenAI, OpenAI

TURNS = 4
FIRST = [{"role": "system", "content": "You are terse. " * 200}, {"role": "user", "content": "héllo 🎈"}]


def grown(messages, answer):
    return [*messages, {"role": "assistant", "content": answer}, {"role": "user", "content": "go on"}]


def main():
    messages, told = FIRST, []
    for turn in range(TURNS):
        with OpenAI(api_key="k", max_retries=0) as client:
            if turn % 2:
                with client.chat.completions.create(model="m", messages=messages, stream=True) as stream:
                    answer = "".join(piece.choices[0].delta.content or "" for piece in stream)
            else:
                answer = client.chat.completions.create(model="m", messages=messages).choices[0].message.content
        told.append(answer)
        messages = grown(messages, answer)
    return told


async def main_async():
    messages, told = FIRST, []
    async with AsyncOpenAI(api_key="k", max_retries=0) as client:
        for turn in range(TURNS):
            if turn % 2:
                stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
                answer = "".join([piece.choices[0].delta.content or "" async for piece in stream])
            else:
                answer = (await client.chat.completions.create(model="m", messages=messages)).choices[0].message.content
            told.append(answer)
            messages = grown(messages, answer)
    return told


if __name__ == "__main__":
    json.dump(asyncio.run(main_async()) if sys.argv[1] == "async" else main(), sys.stdout)
