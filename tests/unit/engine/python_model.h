/* A model in Python that does what its input says, batches for it, and what they must answer. */
#ifndef PYTHON_MODEL_H
#define PYTHON_MODEL_H

#include "unit/engine/python_bench.h"

enum { MEMBERS = 6, COLUMNS = 3 };

static const struct tt_signature signature = {
    .batched = true,
    .max_batch = 64,
    .input_count = 2,
    .output_count = 2,
    .inputs = {{"x", TT_DTYPE_INT32, {2, {-1, COLUMNS}}}, {"s", TT_DTYPE_BYTES, {2, {-1, 1}}}},
    .outputs = {{"y", TT_DTYPE_INT32, {2, {-1, COLUMNS}}}, {"t", TT_DTYPE_BYTES, {2, {-1, 1}}}},
};

/* y = 2 x, t = s + "!"; the first string says what else happens. */
static const char model[] =
    "import os, time\n"
    "import numpy as np\n"
    "import triton_python_backend_utils as pb_utils\n"
    "class TritonPythonModel:\n"
    "    def initialize(self, args):\n"
    "        self.name = args['model_name'] + args['model_version']\n"
    "        pb_utils.Logger.log_warn('initialized ' + args['model_instance_name'])\n"
    "    def answer(self, request):\n"
    "        x = pb_utils.get_input_tensor_by_name(request, 'x').as_numpy()\n"
    "        s = pb_utils.get_input_tensor_by_name(request, 's').as_numpy()\n"
    "        word = s[0, 0].decode()\n"
    "        y, t = x * 2, np.array([[v + b'!'] for v in s[:, 0]], np.object_)\n"
    "        if word == 'raise': raise ValueError('no such word')\n"
    "        if word == 'die': os.kill(os.getpid(), 11)\n"
    "        if word == 'leave': os._exit(3)\n"
    "        if word == 'hang': time.sleep(600)\n"
    "        if word == 'float': y = y.astype(np.float64)\n"
    "        if word == 'shape': y = y[:, :2]\n"
    "        if word == 'rows': y, t = y[:-1], t[:-1]\n"
    "        if word == 'id': t[0, 0] = request.request_id()\n"
    "        if word == 'pid': t[0, 0] = str(os.getpid())\n"
    "        if word == 'environment': t[0, 0] = ' '.join(sorted(os.environ))\n"
    "        if word == 'files': t[0, 0] = ' '.join(sorted(os.listdir('/proc/self/fd')))\n"
    "        if word == 'parameters': request.parameters()\n"
    "        if word == 'exec': pb_utils.InferenceRequest(model_name='n')\n"
    "        if word == 'missing':\n"
    "            return pb_utils.InferenceResponse([pb_utils.Tensor('y', y)])\n"
    "        if word == 'refuse':\n"
    "            error = pb_utils.TritonError('bad word', pb_utils.TritonError.INVALID_ARG)\n"
    "            return pb_utils.InferenceResponse(error=error)\n"
    "        if word == 'long': t[0, 0] = 'a' * 300000\n"
    "        return pb_utils.InferenceResponse(\n"
    "            [pb_utils.Tensor('t', t), pb_utils.Tensor('y', y)])\n"
    "    def execute(self, requests):\n"
    "        return [self.answer(request) for request in requests]\n"
    "    def finalize(self):\n"
    "        print('finalized', self.name)\n";

/* Requests of one batch. Member m has m + 1 rows of numbers, and strings that begin with `word`. */
struct batch {
    struct tt_engine_task task;
    struct tt_engine_member members[MEMBERS];
    struct tt_tensor_view views[MEMBERS][2];
    struct tt_error whys[MEMBERS];
    int32_t numbers[MEMBERS][MEMBERS * COLUMNS];
    char strings[MEMBERS][MEMBERS * 16];
};

static inline size_t put_string(char *to, const char *text) {
    uint32_t length = (uint32_t)strlen(text);
    memcpy(to, &length, sizeof(length));
    memcpy(to + sizeof(length), text, length);
    return sizeof(length) + length;
}

static inline void fill(struct batch *self, struct python_bench *bench, int32_t count,
                        const char *word) {
    *self = (struct batch){
        .task = {.model = bench->model, .member_count = count, .members = self->members}};
    for (int32_t m = 0; m < count; m++) {
        int32_t rows = m + 1;
        size_t at = 0;
        for (int32_t i = 0; i < rows * COLUMNS; i++)
            self->numbers[m][i] = 1000 * m + i;
        for (int32_t i = 0; i < rows; i++)
            at += put_string(self->strings[m] + at, i || m ? "" : word);
        self->views[m][0] = (struct tt_tensor_view){
            self->numbers[m], (size_t)rows * COLUMNS * 4, {2, {rows, COLUMNS}}};
        self->views[m][1] = (struct tt_tensor_view){self->strings[m], at, {2, {rows, 1}}};
        self->members[m] = (struct tt_engine_member){
            .rows = rows, .inputs = self->views[m], .id = "the-id", .why = &self->whys[m]};
        self->task.head.count++;
        self->task.head.rows += rows;
    }
}

static inline void run(struct batch *self, struct python_bench *bench, int32_t count,
                       const char *word) {
    fill(self, bench, count, word);
    bench_run(&bench->bench, &self->task);
}

static inline void release(struct batch *self) {
    for (int32_t m = 0; m < self->task.member_count; m++)
        if (self->members[m].result)
            self->task.model->engine->ops->result_release(self->members[m].result);
}

static inline void output(const struct batch *self, int32_t member, int32_t index, int32_t row,
                          struct tt_tensor_view *out) {
    self->task.model->engine->ops->output(self->members[member].result, index, row, 1, out);
}

static inline void assert_good(const struct batch *self, int32_t member) {
    struct tt_tensor_view view;
    if (self->members[member].err)
        fail_msg("member %d: %s", member, self->whys[member].text);
    for (int32_t row = 0; row <= member; row++) {
        int32_t numbers[COLUMNS];
        output(self, member, 0, row, &view);
        assert_int_equal(view.size_bytes, sizeof(numbers));
        memcpy(numbers, view.bytes, sizeof(numbers));
        for (int32_t i = 0; i < COLUMNS; i++)
            assert_int_equal(numbers[i], 2 * (1000 * member + row * COLUMNS + i));
        output(self, member, 1, row, &view);
        if (row || member) {
            assert_int_equal(view.size_bytes, 5);
            assert_memory_equal(view.bytes, "\1\0\0\0!", 5);
        }
    }
}

/* The first member's string. */
static inline void read_string(const struct batch *self, char *out, size_t capacity) {
    struct tt_tensor_view view;
    uint32_t length;
    assert_int_equal(self->members[0].err, TT_OK);
    output(self, 0, 1, 0, &view);
    memcpy(&length, view.bytes, sizeof(length));
    assert_int_equal(view.size_bytes, sizeof(length) + length);
    snprintf(out, capacity, "%.*s", (int)length, (const char *)view.bytes + sizeof(length));
}

static inline void ask(struct python_bench *bench, const char *word, char *out, size_t capacity) {
    struct batch batch;
    run(&batch, bench, 1, word);
    if (batch.members[0].err)
        fail_msg("%s: %s", word, batch.whys[0].text);
    read_string(&batch, out, capacity);
    release(&batch);
}

static inline void open_model(struct python_bench *bench, int32_t count) {
    struct tt_error why;
    python_bench_init(bench, python_interpreter());
    python_bench_write(bench, model);
    if (python_bench_load(bench, &signature, count, NULL, &why))
        fail_msg("%s", why.text);
}

#endif
