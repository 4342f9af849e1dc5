//! The HTTP API: its routes, and whom they let in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::intrinsics::function_of;
use super::named::Named;
use super::resource::Resource;
use super::yaml::Problem;
use crate::plan::{
    API_GATEWAY, Authorization, Function, JwtAuthorizer, Permission, Route, execute_api_arn,
};

/// The resources of an API, in the order of the template. They refer to each other in any order.
#[derive(Default)]
pub(super) struct ApiResources {
    /// By their kinds.
    lists: BTreeMap<&'static str, Vec<Resource>>,
}

const KINDS: [&str; 5] = ["Api", "Stage", "Integration", "Route", "Authorizer"];

impl ApiResources {
    /// The list that a resource of this type belongs to, if it is one of an API.
    pub(super) fn list(&mut self, kind: &str) -> Option<&mut Vec<Resource>> {
        let kind = kind.strip_prefix("AWS::ApiGatewayV2::")?;
        let known = KINDS.into_iter().find(|known| *known == kind)?;
        Some(self.lists.entry(known).or_default())
    }

    fn of(&self, kind: &str) -> &[Resource] {
        self.lists.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Gives each function its routes.
    pub(super) fn route(
        &self,
        functions: &mut [Function],
        permissions: &[Permission],
    ) -> Result<(), Problem> {
        let apis = self.of("Api");
        if let [_, another, ..] = apis {
            let text = format!("the local stack serves one HTTP API, and not {}", another.what);
            return Err(another.problem(text));
        }
        let api = apis.first();
        api.map_or(Ok(()), check_api)?;
        let api = api.map_or("", |api| &api.id);
        self.check_stages(api)?;
        for resource in self.of("Integration") {
            integration(resource, api)?;
        }
        let mut seen = BTreeSet::new();
        for resource in self.of("Route") {
            let (function, route) = self.read_route(resource, api)?;
            if !seen.insert(format!("{} {}", route.method, route.path)) {
                let text = format!("two routes are {} {}", route.method, route.path);
                return Err(resource.problem(text));
            }
            let arn = execute_api_arn(api, &route.method, &route.path);
            let function = functions.iter_mut().find(|known| known.name == function);
            let function = function.ok_or_else(|| {
                resource.problem(format!("{} leads to a function that is not there", resource.what))
            })?;
            let mut permissions = permissions.iter();
            if !permissions.any(|one| one.allows(API_GATEWAY, &arn, &function.name)) {
                return Err(resource.problem(format!(
                    "no AWS::Lambda::Permission lets {API_GATEWAY} invoke {} for {}",
                    function.name, resource.what
                )));
            }
            function.routes.push(route);
        }
        Ok(())
    }

    /// Without a stage an API answers nothing.
    fn check_stages(&self, api: &str) -> Result<(), Problem> {
        self.of("Stage").iter().try_for_each(|stage| check_stage(stage, api))?;
        match (self.of("Stage"), self.of("Route")) {
            ([], [route, ..]) => {
                let text = format!("{api} has no AWS::ApiGatewayV2::Stage, so nothing answers");
                Err(route.problem(text))
            }
            ([_, another, ..], _) => {
                let text = format!("the local stack knows one stage, and not {}", another.what);
                Err(another.problem(text))
            }
            _ => Ok(()),
        }
    }

    /// The function that a route leads to, and the route.
    fn read_route(&self, resource: &Resource, api: &str) -> Result<(String, Route), Problem> {
        let properties = of_api(
            resource,
            api,
            "ApiId AuthorizationType AuthorizerId OperationName RouteKey Target",
        )?;
        let key = properties.require("RouteKey")?;
        let text = key.text()?;
        let fixed = text.split_once(' ');
        let fixed = fixed.filter(|(method, path)| *method != "ANY" && !path.contains(['{', '$']));
        let (method, path) = fixed.ok_or_else(|| {
            key.problem(format!(
                "the local stack knows routes of one method and a fixed path only, not {text}"
            ))
        })?;
        let target = properties.require("Target")?;
        let id = target.text()?.strip_prefix("integrations/");
        let known = id.and_then(|id| self.of("Integration").iter().find(|known| known.id == id));
        let known = known.ok_or_else(|| {
            let what = &target.what;
            target.problem(format!("{what} must be integrations/ and an integration here"))
        })?;
        let (function, timeout) = integration(known, api)?;
        let route = Route {
            method: method.to_ascii_uppercase(),
            path: path.to_owned(),
            timeout,
            authorization: self.authorization(&properties, api)?,
        };
        Ok((function, route))
    }

    fn authorization(&self, properties: &Named<'_>, api: &str) -> Result<Authorization, Problem> {
        let Some(kind) = properties.get("AuthorizationType") else {
            return Ok(Authorization::None);
        };
        match kind.choice(&[("NONE", "NONE"), ("AWS_IAM", "AWS_IAM"), ("JWT", "JWT")])? {
            "NONE" => Ok(Authorization::None),
            "AWS_IAM" => Ok(Authorization::Iam),
            _ => {
                let id = properties.require("AuthorizerId")?;
                let name = id.text()?;
                let known = self.of("Authorizer").iter().find(|known| known.id == name);
                let known = known.ok_or_else(|| id.wrong("an authorizer here"))?;
                Ok(Authorization::Jwt(jwt_authorizer(known, api)?))
            }
        }
    }
}

/// The properties of a resource of the API. One gateway serves one API, so everything must be of that.
fn of_api<'a>(resource: &'a Resource, api: &str, known: &str) -> Result<Named<'a>, Problem> {
    let properties = resource.properties(known)?;
    let owner = properties.require("ApiId")?;
    let name = owner.text()?;
    if name == api {
        return Ok(properties);
    }
    Err(owner.problem(format!("{} is {name}, which is not the API here", owner.what)))
}

/// The function that an integration calls, and how long the API waits for it.
fn integration(resource: &Resource, api: &str) -> Result<(String, Duration), Problem> {
    let properties = of_api(
        resource,
        api,
        "ApiId Description IntegrationMethod IntegrationType IntegrationUri PayloadFormatVersion TimeoutInMillis",
    )?;
    properties.require("IntegrationType")?.choice(&[("AWS_PROXY", ())])?;
    properties.require("PayloadFormatVersion")?.choice(&[("2.0", ())])?;
    // API Gateway's range.
    let millis = properties.optional("TimeoutInMillis", |millis| millis.number_in(50..=30_000))?;
    let millis = millis.map_or(30_000, i32::unsigned_abs);
    let uri = properties.require("IntegrationUri")?;
    let function = function_of(uri.text()?).ok_or_else(|| uri.wrong("!GetAtt Function.Arn"))?;
    Ok((function.to_owned(), Duration::from_millis(millis.into())))
}

/// Checks the API itself. Who may call it from pages of which origins, and by which name, is without effect here.
fn check_api(resource: &Resource) -> Result<(), Problem> {
    let properties = resource.properties(
        "CorsConfiguration Description DisableExecuteApiEndpoint Name ProtocolType Tags",
    )?;
    properties.require("ProtocolType")?.choice(&[("HTTP", ())])
}

/// Checks a stage. Logs go to stderr and nothing limits the rate of requests, so what it says of these is without
/// effect here.
fn check_stage(resource: &Resource, api: &str) -> Result<(), Problem> {
    let properties = of_api(
        resource,
        api,
        "AccessLogSettings ApiId AutoDeploy DefaultRouteSettings Description RouteSettings StageName Tags",
    )?;
    properties.require("StageName")?.choice(&[("$default", ())])?;
    if properties.optional("AutoDeploy", Named::flag)? == Some(true) {
        return Ok(());
    }
    let what = &properties.what;
    Err(properties
        .problem(format!("{what} must have AutoDeploy, or its routes are never deployed")))
}

fn jwt_authorizer(resource: &Resource, api: &str) -> Result<JwtAuthorizer, Problem> {
    let properties =
        of_api(resource, api, "ApiId AuthorizerType IdentitySource JwtConfiguration Name")?;
    let kind = properties.require("AuthorizerType")?;
    let from_header = match &properties.require("IdentitySource")?.texts()?[..] {
        [one] => one.eq_ignore_ascii_case(AUTHORIZATION_HEADER),
        _ => false,
    };
    if kind.text()? != "JWT" || !from_header {
        return Err(kind.problem(format!(
            "the local stack knows authorizers of JSON Web Tokens in {AUTHORIZATION_HEADER} only, not {}",
            properties.what
        )));
    }
    let configuration = properties.require("JwtConfiguration")?;
    let issuer = configuration.only("Audience Issuer")?.require("Issuer")?.owned()?;
    let audiences = configuration.require("Audience")?.texts()?;
    if issuer.is_empty() || audiences.iter().any(String::is_empty) {
        let what = &configuration.what;
        return Err(configuration.problem(format!("{what} needs an issuer and an audience")));
    }
    Ok(JwtAuthorizer { issuer, audiences })
}

const AUTHORIZATION_HEADER: &str = "$request.header.Authorization";
