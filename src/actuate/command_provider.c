#include "actuate/command_provider.h"

#include "actuate/timed_command.h"

#include <stdlib.h>
#include <string.h>

struct command_provider {
    char **words; /* templates */
    int64_t limit_ns;
};

static void close_provider(void *take_self) {
    struct command_provider *self = take_self;
    tt_command_words_free(self->words);
    free(self);
}

/* The words with the request's values, in one block; NULL: out of memory. */
static char **fill(const struct command_provider *self, const struct tt_scale_request *request) {
    size_t count = 0;
    while (self->words[count])
        count++;
    char **words = calloc(count + 1, sizeof(*words));
    for (size_t i = 0; words && i < count; i++) {
        struct tt_text word;
        tt_text_init(&word);
        tt_scale_template_put(self->words[i], request, &word);
        words[i] = word.failed ? NULL : strdup(tt_text_string(&word));
        tt_text_fini(&word);
        if (words[i])
            continue;
        while (i > 0)
            free(words[--i]);
        free(words);
        return NULL;
    }
    return words;
}

static enum tt_err scale(void *context, const struct tt_scale_request *request, int32_t *out_found,
                         struct tt_error *why) {
    (void)out_found;
    const struct command_provider *self = context;
    enum tt_err err = request->confirm(request->context, why);
    if (err)
        return err;
    char **words = fill(self, request);
    if (!words)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    const struct tt_timed_command command = {.words = (const char *const *)words,
                                             .limit_ns = self->limit_ns,
                                             .stopping = request->stopping};
    struct tt_text output;
    tt_text_init(&output);
    err = tt_timed_command_run(&command, &output, why);
    tt_text_fini(&output);
    for (size_t i = 0; words[i]; i++)
        free(words[i]);
    free(words);
    return err;
}

enum tt_err tt_command_provider_open(const char *line, int64_t limit_ns,
                                     struct tt_scale_provider *out_provider, struct tt_error *why) {
    char **words = tt_command_words(line, why);
    if (!words)
        return TT_ERR_INVALID;
    enum tt_err err = TT_OK;
    for (size_t i = 0; !err && words[i]; i++)
        err = tt_scale_template_check(words[i], why);
    struct command_provider *self = err ? NULL : calloc(1, sizeof(*self));
    if (!self) {
        tt_command_words_free(words);
        return err ? err : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    *self = (struct command_provider){.words = words, .limit_ns = limit_ns};
    *out_provider = (struct tt_scale_provider){
        .name = "command", .self = self, .scale = scale, .close = close_provider};
    return TT_OK;
}
