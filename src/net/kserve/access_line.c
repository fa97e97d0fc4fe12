#include "net/kserve/access_line.h"

#include "base/clock.h"
#include "base/hex.h"
#include "base/instant.h"
#include "base/utf8.h"
#include "serve/inference.h"

#include <string.h>
#include <time.h>

enum { ID_BYTES = 128 };

void tt_access_log_init(struct tt_access_log *self, struct tt_line_file *file, int32_t writer) {
    self->file = file;
    self->writer = writer;
    tt_text_init(&self->line);
}

void tt_access_log_fini(struct tt_access_log *self) { tt_text_fini(&self->line); }

/* Bytes that are not UTF-8 as if they were Latin 1, so that the line is JSON whatever a client
 * sent. */
static void put_string(struct tt_text *line, const char *name, const char *string) {
    tt_text_puts(line, name);
    tt_text_append(line, "\"", 1);
    for (size_t left = strlen(string), step; left > 0; string += step, left -= step) {
        unsigned char c = (unsigned char)*string;
        size_t character = tt_utf8_step(string, left);
        step = character ? character : 1;
        if (c < 32 || c == 127 || c == '"' || c == '\\' || !character)
            tt_text_printf(line, "\\u%04x", c);
        else
            tt_text_append(line, string, step);
    }
    tt_text_append(line, "\"", 1);
}

/* Milliseconds with three digits. */
static void put_ms(struct tt_text *line, const char *name, int64_t ns) {
    long long us = ns / 1000, size = us < 0 ? -us : us;
    tt_text_printf(line, "%s%s%lld.%03lld", name, us < 0 ? "-" : "", size / 1000, size % 1000);
}

static void put_time(struct tt_text *line) {
    int64_t wall_ns = tt_clock_wall();
    time_t whole = (time_t)(wall_ns / TT_S);
    struct tm parts;
    char date[40];
    gmtime_r(&whole, &parts);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
    tt_text_printf(line, "{\"time\":\"%s.%06dZ\"", date, (int)(wall_ns % TT_S / 1000));
}

static void put_client(struct tt_text *line, const struct tt_access_line *of) {
    char address[TT_PEER_ADDRESS_TEXT_BYTES];
    tt_peer_address_write(of->client, address);
    if (*address)
        put_string(line, ",\"client\":", address);
    if (*of->identity)
        put_string(line, ",\"identity\":", of->identity);
    if (of->trace) {
        char hex[2 * TT_TRACE_ID_BYTES + 1] = "";
        tt_hex_write(of->trace->trace_id, TT_TRACE_ID_BYTES, hex);
        put_string(line, ",\"trace\":", hex);
    }
}

/* Of a request for inference: what was asked for, and how it ran. */
static void put_inference(struct tt_text *line, const struct tt_kserve_request *request,
                          struct tt_inference *inference, int64_t now) {
    if (*request->target.model)
        put_string(line, ",\"model\":", request->target.model);
    if (inference) {
        struct tt_inference_account account;
        tt_inference_account(inference, &account);
        if (account.batch_rows > 0)
            tt_text_printf(line, ",\"batch\":%d", account.batch_rows);
        if (account.deadline_at != TT_NEVER)
            put_ms(line, ",\"slack_ms\":", account.deadline_at - now);
    }
    if (!request->id.length || request->id.length > ID_BYTES)
        return;
    if (request->id_margin == 1) { /* a string of JSON */
        tt_text_puts(line, ",\"id\":");
        tt_text_append(line, request->id.bytes, request->id.length);
    } else {
        char id[ID_BYTES + 1];
        memcpy(id, request->id.bytes, request->id.length);
        id[request->id.length] = '\0';
        put_string(line, ",\"id\":", id);
    }
}

void tt_access_log_put(struct tt_access_log *self, const struct tt_access_line *of) {
    struct tt_text *line = &self->line;
    int64_t now = tt_clock_now();
    tt_text_clear(line);
    put_time(line);
    put_string(line, ",\"method\":", of->method);
    put_string(line, ",\"path\":", of->path);
    tt_text_printf(line, ",\"status\":%d", of->status);
    if (of->grpc_status >= 0)
        tt_text_printf(line, ",\"grpc_status\":%d", of->grpc_status);
    put_ms(line, ",\"ms\":", now - of->began_at);
    if (of->body_bytes >= 0)
        tt_text_printf(line, ",\"bytes\":%lld", (long long)of->body_bytes);
    put_client(line, of);
    if (of->request)
        put_inference(line, of->request, of->inference, now);
    tt_text_append(line, "}\n", 2);
    if (!line->failed)
        tt_line_file_put(self->file, self->writer, line->bytes, line->length);
    else /* no memory for this line; there may be for the next one */
        tt_text_fini(line);
}
