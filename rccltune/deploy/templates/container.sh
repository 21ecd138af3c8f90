{% set bind = (folder ~ ':' ~ mount ~ ':ro') | sh %}
{% set env_file = (folder ~ '/container.env') | sh %}
{% set docker %}-v {{ bind }} --env-file {{ env_file }}{% for name, value in odd %} --env {{ (name ~ '=' ~ value) | sh }}{% endfor %}{% endset %}
{% set apptainer %}{% for name, value in odd %}{{ name }}={{ value | sh }} {% endfor %}apptainer exec --bind {{ bind }} --env-file {{ env_file }}{% endset %}
{{ header('#') }}
# Lines to copy. The version is seen as {{ mount }} inside; --env-file names it there.
# It is this version and not 'current', so that all ranks of a job read one file.
#
# env.sh alone does not do: its paths are passed on, and are not there inside.
# --env-file wins over them.
#
# Apptainer, Singularity:
#   {{ apptainer }} IMAGE ./job
# Docker, Podman:
#   docker run {{ docker }} OPTIONS IMAGE ./job
#   podman run {{ docker }} OPTIONS IMAGE ./job
# The image's C library must be new enough, and its GPUs in the right mode:
#   {{ apptainer }} IMAGE {{ mount }}/check.sh --sourced
#   docker run {{ docker }} OPTIONS IMAGE {{ mount }}/check.sh --sourced
# In an image (a Dockerfile with the deployed folder as its context):
#   COPY versions/{{ version }} {{ mount }}
{% for name, value in inside %}
#   ENV {{ name }}={{ value | sh }}
{% endfor %}
