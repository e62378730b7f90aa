# A service of one saved model: docker build -t risks . && docker run -p 8000:8000 -v $PWD/model:/model:ro risks
# The model's engine decides the extra: xgboost, lightgbm or catboost. This file is not run by the tests.
FROM python:3.12-slim AS build
COPY . /source
RUN pip wheel --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
ARG ENGINE=xgboost
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[serve,$ENGINE]" && useradd --no-create-home service
USER service
ENV OMP_NUM_THREADS=1
EXPOSE 8000
CMD ["survival-objectives", "serve", "/model", "--host", "0.0.0.0", "--port", "8000"]
