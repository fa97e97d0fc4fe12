#include "profile/worker_file.h"

#include "model/text/textproto.h"
#include "profile/profile_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t tt_worker_mix_total(const struct tt_worker_mix *self) {
    int32_t total = 0;
    for (int32_t k = 0; k < TT_WORKER_SIZES; k++)
        total += self->counts[k] << k;
    return total;
}

char *tt_worker_mix_print(const int32_t counts[TT_WORKER_SIZES], char *out, size_t capacity) {
    size_t used = 0;
    tt_assert(capacity >= 1);
    out[0] = '\0';
    for (int32_t k = TT_WORKER_SIZES - 1; k >= 0; k--)
        for (int32_t i = 0; i < counts[k] && used < capacity; i++)
            used += (size_t)snprintf(out + used, capacity - used, used ? ",%d" : "%d", 1 << k);
    return out;
}

static enum tt_err check_origin(const Tutti__WorkerSearch *message,
                                const struct tt_worker_file_origin *wanted, struct tt_error *why) {
    enum tt_err err = tt_profile_file_check_origin(message->model_sha256, message->device,
                                                   wanted->model_sha256, wanted->device, why);
    if (err)
        return err;
    if (wanted->length >= 0 && message->length != wanted->length)
        return tt_fail(TT_ERR_INVALID, why, "it was measured with inputs of length %d, not %d",
                       message->length, wanted->length);
    return TT_OK;
}

static enum tt_err read_mix(const Tutti__WorkerMix *from, struct tt_worker_mix *to,
                            struct tt_error *why) {
    *to = (struct tt_worker_mix){.runs = from->runs,
                                 .mean_ns = from->mean_ns,
                                 .low_ns = from->low_ns,
                                 .high_ns = from->high_ns,
                                 .last_ns = from->last_ns};
    if (from->n_worker == 0 || from->n_worker > 1 << 10 || from->mean_ns <= 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "a mix has %zu workers that take %lld ns; it must be 1 to 1024, and more "
                       "than 0",
                       from->n_worker, (long long)from->mean_ns);
    for (size_t i = 0; i < from->n_worker; i++) {
        int32_t size = from->worker[i];
        if (size < 1 || size > 1 << (TT_WORKER_SIZES - 1) || (size & (size - 1)) != 0)
            return tt_fail(TT_ERR_INVALID, why,
                           "a worker of size %d; it must be a power of two up to %d", size,
                           1 << (TT_WORKER_SIZES - 1));
        to->counts[__builtin_ctz((unsigned)size)]++;
    }
    tt_assert(tt_worker_mix_total(to) >= (int32_t)from->n_worker);
    return TT_OK;
}

static enum tt_err read_mixes(const Tutti__WorkerSearch *message, struct tt_worker_mix **out_mixes,
                              struct tt_error *why) {
    struct tt_worker_mix *mixes = calloc(message->n_mix + 1, sizeof(*mixes));
    if (!mixes)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (size_t i = 0; i < message->n_mix; i++) {
        enum tt_err err = read_mix(message->mix[i], &mixes[i], why);
        if (err) {
            free(mixes);
            return err;
        }
    }
    *out_mixes = mixes;
    return TT_OK;
}

enum tt_err tt_worker_file_read(const char *path, const struct tt_worker_file_origin *wanted,
                                struct tt_worker_mix **out_mixes, int32_t *out_count,
                                struct tt_error *why) {
    ProtobufCMessage *base;
    enum tt_err err =
        tt_textproto_read_file(path, &tutti__worker_search__descriptor, NULL, &base, why);
    if (err)
        return err;
    const Tutti__WorkerSearch *message = (const Tutti__WorkerSearch *)base;
    if (wanted)
        err = check_origin(message, wanted, why);
    if (!err)
        err = read_mixes(message, out_mixes, why);
    if (!err)
        *out_count = (int32_t)message->n_mix;
    protobuf_c_message_free_unpacked(base, NULL);
    return err ? tt_fail_in(err, why, "%s", path) : TT_OK;
}

void tt_worker_file_print(const struct tt_worker_file_origin *origin,
                          const struct tt_worker_mix *mixes, int32_t count,
                          struct tt_text *out_text) {
    tt_text_puts(out_text, "source: ");
    tt_textproto_put_string(out_text, origin->source);
    tt_text_puts(out_text, "\ndevice: ");
    tt_textproto_put_string(out_text, origin->device);
    tt_text_printf(out_text, "\ndate: \"%s\"\nmodel_sha256: \"%s\"\n", origin->date,
                   origin->model_sha256);
    if (origin->length)
        tt_text_printf(out_text, "length: %d\n", origin->length);
    char workers[1024];
    for (int32_t i = 0; i < count; i++)
        tt_text_printf(out_text,
                       "mix { worker: [%s] mean_ns: %lld low_ns: %lld high_ns: %lld runs: %d "
                       "last_ns: %lld }\n",
                       tt_worker_mix_print(mixes[i].counts, workers, sizeof(workers)),
                       (long long)mixes[i].mean_ns, (long long)mixes[i].low_ns,
                       (long long)mixes[i].high_ns, mixes[i].runs, (long long)mixes[i].last_ns);
}
