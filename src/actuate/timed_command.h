/* Runs a program without a shell, with a time limit, and keeps the beginning of what it prints. A
 * program that takes too long is killed with its process group. Implemented in timed_command.c. */
#ifndef TT_ACTUATE_TIMED_COMMAND_H
#define TT_ACTUATE_TIMED_COMMAND_H

#include "base/text.h"
#include "base/threads/flag.h"

enum { TT_COMMAND_OUTPUT_BYTES = 300 };

struct tt_timed_command {
    const char *const *words; /* ends with NULL; the first is the program, searched for in PATH */
    int64_t limit_ns;
    const struct tt_flag *stopping; /* raised: it is killed */
};

/* Appends the output (standard output and error), without line ends at its end. Errors: INVALID:
 * an exit code that is not 0, or a signal; TIMEOUT; CANCELLED; IO: it could not be started. The
 * messages have what it printed. */
TT_MUST_CHECK enum tt_err tt_timed_command_run(const struct tt_timed_command *self,
                                               struct tt_text *out_output, struct tt_error *why);

/* Words of a command line: separated by spaces, 'quoted' or "quoted"; a quote within a word begins
 * a quoted part of it. Nothing is expanded. Returns an array that ends with NULL; free it with
 * _words_free. NULL and `why`: an open quote, no word, or no memory. */
char **tt_command_words(const char *line, struct tt_error *why);
void tt_command_words_free(char **take_words);

#endif
