#include "lab/report/page.h"

#include "base/instant.h"
#include "base/processors.h"
#include "base/text.h"
#include "profile/machine.h"

#include <string.h>

enum { WHOLE = 10000, MAX_COMMAND_BYTES = 1 << 16 };

/* Made by cmake/embed_page.cmake from the files of page/. */
extern const unsigned char tt_page_template[];
extern const size_t tt_page_template_bytes;

static const char data_mark[] = "@DATA@";

static bool is_plain(const char *word) {
    return *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789_-+=./,:@%")];
}

/* The command line as a person would type it. */
static json_t *command(void) {
    struct tt_text line, out;
    tt_text_init(&out);
    if (tt_text_read_file("/proc/self/cmdline", MAX_COMMAND_BYTES, &line, NULL) == TT_OK) {
        for (size_t at = 0; at < line.length; at += strlen(line.bytes + at) + 1) {
            const char *word = line.bytes + at, *slash = at == 0 ? strrchr(word, '/') : NULL;
            word = slash ? slash + 1 : word;
            const char *quote = is_plain(word) ? "" : "'";
            tt_text_printf(&out, "%s%s%s%s", at ? " " : "", quote, word, quote);
        }
        tt_text_fini(&line);
    }
    json_t *text = json_string(tt_text_string(&out)); /* NULL where it is no UTF-8 */
    tt_text_fini(&out);
    return text ? text : json_string("");
}

static json_t *origin(void) {
    char machine[256] = "", date[24] = "";
    (void)tt_machine_processor(machine, sizeof(machine));
    (void)tt_machine_date(date, sizeof(date));
    return json_pack("{s:o,s:s,s:i,s:s,s:s}", "command", command(), "machine", machine, "cores",
                     tt_processors_usable(), "date", date, "version", TUTTI_VERSION);
}

/* '<' stands in strings of JSON only; escaped, no name can end the script element. */
static void put_data(const char *json, struct tt_text *out) {
    for (const char *from = json; *from;) {
        size_t length = strcspn(from, "<");
        tt_text_append(out, from, length);
        from += length;
        if (*from) {
            tt_text_puts(out, "\\u003c");
            from++;
        }
    }
}

enum tt_err tt_page_write(const char *kind, const char *title, json_t *take_body, const char *path,
                          struct tt_error *why) {
    json_t *data = json_pack("{s:s,s:s,s:o,s:o}", "kind", kind, "title", title, "origin", origin(),
                             "body", take_body);
    char *json = data ? json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(data);
    const unsigned char *mark =
        memmem(tt_page_template, tt_page_template_bytes, data_mark, strlen(data_mark));
    tt_assert(mark != NULL);
    size_t head = (size_t)(mark - tt_page_template), rest = head + strlen(data_mark);
    struct tt_text page;
    tt_text_init(&page);
    tt_text_append(&page, tt_page_template, head);
    put_data(json ? json : "", &page);
    tt_text_append(&page, tt_page_template + rest, tt_page_template_bytes - rest);
    enum tt_err err = json && !page.failed
                          ? tt_text_write_file(path, &page, why)
                          : tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", path);
    tt_text_fini(&page);
    free(json);
    return err;
}

/* Hundredths up to 99 %, finer behind. */
static int32_t share_after(int32_t share) { return share + (share < 9900 ? 100 : 10); }

json_t *tt_page_shares(void) {
    json_t *shares = json_array();
    for (int32_t share = 0; share <= WHOLE; share = share_after(share))
        json_array_append_new(shares, json_real((double)share / WHOLE));
    return shares;
}

json_t *tt_page_quantiles(const struct tt_histogram *ns) {
    if (ns->count == 0)
        return json_null();
    json_t *values = json_array();
    for (int32_t share = 0; share <= WHOLE; share = share_after(share))
        json_array_append_new(values,
                              json_real((double)tt_histogram_quantile(ns, share, WHOLE) / 1e6));
    return values;
}

json_t *tt_page_slo(int64_t slo_ns) {
    return slo_ns > 0 && slo_ns != TT_NEVER ? json_real((double)slo_ns / 1e6) : json_null();
}
