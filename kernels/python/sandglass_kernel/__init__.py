"""The Python kernel of Sandglass: runs the cells of one session in one process.

The process is a fork of a warmed interpreter (see ../zygote.py). It gets cells as frames over a socket and
answers with frames; what a cell prints goes straight to descriptors 1 and 2, which are pipes. Everything that
is sent is data and nothing more: user code shares the interpreter with us, so whoever reads the frames trusts
none of them. Limits, exits and the reasons for them are the business of the processes outside.

  runner        the loop: a RUN frame in, a cell run, a DONE frame out
  cells         compiles one cell and runs it
  shell         IPython, told to talk to us instead of a terminal
  wire          the frames on the socket
  streams       sys.stdout and sys.stderr, and the order between them and the frames
  interrupts    when a SIGINT may stop what
  bundles       display values made fit for the wire
  tracebacks    errors as plain, bounded text
  figures       matplotlib without a screen
  loops         the asyncio loop of the session
  commands      !cmd, %%bash, %pip
  surroundings  environment, paths, processor share, fresh randomness
  warming       what the zygote does once so that no session has to
"""
