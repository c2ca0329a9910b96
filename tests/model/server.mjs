// A real small model behind two shapes of HTTP, for tests: Ollama's `/api/chat`, `/api/show`,
// `/api/tags`, `/api/version` (Ollama docs, `api.md`) and OpenAI's `/v1/chat/completions`, `/v1/models`
// (OpenAI API reference), none of them streaming. Listens on 127.0.0.1 only and answers one question
// at a time. `GET /seen` tells what was asked of it so far.
//
//     node server.mjs FOLDER PORT
//
// FOLDER is what `tests/model/install` filled; port 0 takes a free one. One line of JSON on standard
// output says that it is ready: {"port","load_ms"}. It ends when its standard input does, so that it
// never outlives the test that started it.

import http from 'node:http';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { pathToFileURL } from 'node:url';

/** The name by which the model is asked for. */
const MODEL = 'smollm2:135m';
const FILE = 'SmolLM2-135M-Instruct.Q4_1.gguf';
/**
 * Threads of the model. Several wait for each other at every step, and crawl where other work keeps one
 * of them off its core; for a model of this size one is about as fast.
 */
const THREADS = 1;
/** Tokens of context where nobody says, and the fewest that make sense. */
const CONTEXT = 4096;
const CONTEXT_LEAST = 256;
/** Tokens of an answer where nobody says: a small model may never come to an end. */
const ANSWER = 256;
const BODY_MOST = 1024 * 1024;
/** Questions that are remembered for `/seen`. */
const SEEN_MOST = 64;

const [folder, port] = process.argv.slice(2);
if (!folder || !/^\d+$/.test(port ?? '')) {
  console.error('usage: node server.mjs FOLDER PORT');
  process.exit(2);
}

/** Something to say to the client instead of an answer. */
class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const root = resolve(folder);
const library = createRequire(join(root, 'package.json')).resolve('node-llama-cpp');
const { getLlama, LlamaChat, LlamaLogLevel } = await import(pathToFileURL(library).href);
const started = performance.now();
// The library's prebuilt program, and nothing that would compile or fetch one.
const llama = await getLlama({ gpu: false, build: 'never', skipDownload: true, logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath: join(root, FILE) });
const loadMs = Math.round(performance.now() - started);

/** The one context: another size means a new one, as with Ollama. */
let open = null;
async function chatOf(size) {
  if (open?.size !== size) {
    await open?.context.dispose();
    open = null;
    const context = await model.createContext({ contextSize: size, threads: THREADS, sequences: 1 });
    open = { size, context, chat: new LlamaChat({ contextSequence: context.getSequence() }) };
  }
  return open.chat;
}

/** A whole number within bounds, or what stands for it when nothing was sent. */
function whole(value, otherwise, least, most) {
  if (value === undefined || value === null) return otherwise;
  if (!Number.isInteger(value)) throw new Refusal(400, `${JSON.stringify(value)} is no whole number`);
  return Math.min(Math.max(value, least), most);
}

/** Messages of either protocol as the library's history. */
function history(messages) {
  if (!Array.isArray(messages)) throw new Refusal(400, 'messages is no array');
  return messages.map((message) => {
    const text = message?.content;
    if (typeof text !== 'string') throw new Refusal(400, 'a message without text');
    switch (message.role) {
      case 'system':
      case 'user':
        return { type: message.role, text };
      case 'assistant':
        return { type: 'model', response: [text] };
      default:
        throw new Refusal(400, `no such role here: ${message.role}`);
    }
  });
}

/** The questions stand in a row: the model has one context. */
let last = Promise.resolve();
function inTurn(work) {
  const mine = last.then(work);
  last = mine.catch(() => {});
  return mine;
}

/** One answer. A client that leaves ends it, in the row or at work. */
function answer(messages, { size, most, temperature, signal }) {
  const chatHistory = history(messages);
  return inTurn(async () => {
    signal.throwIfAborted();
    const began = performance.now();
    // Where the shape has no word for the size, what is open stays.
    const chat = await chatOf(size ?? open?.size ?? CONTEXT);
    if (chatHistory.length === 0) return { text: '', stop: 'load', prompt: 0, tokens: 0, ms: performance.now() - began };
    chatHistory.push({ type: 'model', response: [] });
    const { contextText } = chat.chatWrapper.generateContextState({ chatHistory });
    let tokens = 0;
    const { response, metadata } = await chat.generateResponse(chatHistory, {
      maxTokens: most,
      temperature,
      signal,
      onToken: (more) => (tokens += more.length),
    });
    return {
      text: response,
      stop: metadata.stopReason === 'maxTokens' ? 'length' : 'stop',
      prompt: contextText.tokenize(model.tokenizer).length,
      tokens,
      ms: performance.now() - began,
    };
  });
}

function known(name) {
  if (name !== MODEL) throw new Refusal(404, `model '${name}' not found`);
}

const architecture = model.fileInfo.metadata.general.architecture;
const details = { format: 'gguf', family: architecture, parameter_size: '135M', quantization_level: 'Q4_1' };
const nanoseconds = (ms) => Math.round(ms * 1e6);

const ROUTES = {
  'GET /api/version': () => ({ version: '0.0.0' }),
  'GET /api/tags': () => ({ models: [{ name: MODEL, model: MODEL, size: model.size, details }] }),
  'POST /api/show': (body) => {
    known(body.model);
    const info = { 'general.architecture': architecture, [`${architecture}.context_length`]: model.trainContextSize };
    return { details, model_info: info, capabilities: ['completion'] };
  },
  'POST /api/chat': async (body, signal) => {
    known(body.model);
    // Ollama streams unless told not to.
    if (body.stream !== false) throw new Refusal(400, 'streams are not spoken here: send "stream": false');
    const options = body.options ?? {};
    const said = await answer(body.messages, {
      size: whole(options.num_ctx, null, CONTEXT_LEAST, model.trainContextSize),
      most: whole(options.num_predict, ANSWER, 1, ANSWER),
      temperature: options.temperature ?? 0.8,
      signal,
    });
    return {
      model: body.model,
      created_at: new Date().toISOString(),
      message: { role: 'assistant', content: said.text },
      done: true,
      done_reason: said.stop,
      total_duration: nanoseconds(said.ms),
      prompt_eval_count: said.prompt,
      eval_count: said.tokens,
    };
  },
  'GET /v1/models': () => ({ object: 'list', data: [{ id: MODEL, object: 'model', owned_by: 'test' }] }),
  'POST /v1/chat/completions': async (body, signal) => {
    known(body.model);
    if (body.stream === true) throw new Refusal(400, 'streams are not spoken here');
    if (body.messages?.length === 0) throw new Refusal(400, 'messages is empty');
    const said = await answer(body.messages, {
      most: whole(body.max_tokens, ANSWER, 1, ANSWER),
      temperature: body.temperature ?? 1,
      signal,
    });
    return {
      id: `chatcmpl-${seen.length}`,
      object: 'chat.completion',
      created: Math.floor(Date.now() / 1000),
      model: body.model,
      choices: [{ index: 0, message: { role: 'assistant', content: said.text }, finish_reason: said.stop }],
      usage: { prompt_tokens: said.prompt, completion_tokens: said.tokens, total_tokens: said.prompt + said.tokens },
    };
  },
  'GET /seen': () => seen,
};

/** What was asked: {path, body, status, ms}, oldest first. */
const seen = [];

async function read(request) {
  const parts = [];
  let length = 0;
  for await (const part of request) {
    length += part.length;
    if (length > BODY_MOST) throw new Refusal(413, 'the body is too large');
    parts.push(part);
  }
  if (length === 0) return {};
  try {
    return JSON.parse(Buffer.concat(parts).toString());
  } catch (error) {
    throw new Refusal(400, `no JSON: ${error.message}`);
  }
}

async function serve(request, response) {
  const leaving = new AbortController();
  response.on('close', () => leaving.abort());
  const began = performance.now();
  let body = null;
  let status = 200;
  let told;
  try {
    const route = ROUTES[`${request.method} ${request.url}`];
    if (!route) throw new Refusal(404, `nothing at ${request.method} ${request.url}`);
    body = await read(request);
    told = await route(body, leaving.signal);
  } catch (error) {
    status = error.status ?? 500;
    // Ollama's error is a text, OpenAI's an object.
    told = { error: request.url.startsWith('/v1/') ? { message: error.message, code: status } : error.message };
  }
  if (request.method === 'POST') {
    seen.push({ path: request.url, body, status, ms: Math.round(performance.now() - began) });
    seen.splice(0, seen.length - SEEN_MOST);
  }
  const text = JSON.stringify(told);
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}

const server = http.createServer((request, response) => {
  serve(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  });
});
server.listen(Number(port), '127.0.0.1', () => {
  console.log(JSON.stringify({ port: server.address().port, load_ms: loadMs }));
});
process.stdin.on('end', () => process.exit(0)).resume();
