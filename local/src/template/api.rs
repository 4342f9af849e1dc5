//! The HTTP API: its routes, and whom they let in.

use super::intrinsics::function_of;
use super::resource::Resource;
use super::yaml::{Node, Problem};
use crate::plan::{
    API_GATEWAY, Authorization, Function, JwtAuthorizer, Permission, Route, execute_api_arn,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// The resources of an API, in the order of the template. They refer to each other in any order.
#[derive(Default)]
pub(super) struct ApiResources {
    apis: Vec<Resource>,
    stages: Vec<Resource>,
    integrations: Vec<Resource>,
    routes: Vec<Resource>,
    authorizers: Vec<Resource>,
}

impl ApiResources {
    /// The list that a resource of this kind belongs to, if it is one of an API.
    pub(super) fn list(&mut self, kind: &str) -> Option<&mut Vec<Resource>> {
        Some(match kind {
            "AWS::ApiGatewayV2::Api" => &mut self.apis,
            "AWS::ApiGatewayV2::Stage" => &mut self.stages,
            "AWS::ApiGatewayV2::Integration" => &mut self.integrations,
            "AWS::ApiGatewayV2::Route" => &mut self.routes,
            "AWS::ApiGatewayV2::Authorizer" => &mut self.authorizers,
            _ => return None,
        })
    }

    /// Gives each function its routes.
    pub(super) fn route(
        &self,
        functions: &mut [Function],
        permissions: &[Permission],
    ) -> Result<(), Problem> {
        let api = match &self.apis[..] {
            [] => None,
            [api] => Some(api),
            [_, another, ..] => {
                let text = format!("the local stack serves one HTTP API, and not {}", another.what);
                return Err(Problem::at(another.properties.line, text));
            }
        };
        api.map_or(Ok(()), check_api)?;
        let api = api.map_or("", |api| &api.id);
        self.check_stages(api)?;
        for integration in &self.integrations {
            Self::timeout(integration, api)?;
        }
        let mut seen = BTreeSet::new();
        for resource in &self.routes {
            let (function, route) = self.read_route(resource, api)?;
            let line = resource.properties.line;
            if !seen.insert(format!("{} {}", route.method, route.path)) {
                let text = format!("two routes are {} {}", route.method, route.path);
                return Err(Problem::at(line, text));
            }
            let arn = execute_api_arn(api, &route.method, &route.path);
            let function = functions.iter_mut().find(|known| known.name == function);
            let function = function.ok_or_else(|| {
                let text = format!("{} leads to a function that is not there", resource.what);
                Problem::at(line, text)
            })?;
            let mut permissions = permissions.iter();
            if !permissions.any(|one| one.allows(API_GATEWAY, &arn, &function.name)) {
                let text = format!(
                    "no AWS::Lambda::Permission lets {API_GATEWAY} invoke {} for {}",
                    function.name, resource.what
                );
                return Err(Problem::at(line, text));
            }
            function.routes.push(route);
        }
        Ok(())
    }

    /// Without a stage an API answers nothing.
    fn check_stages(&self, api: &str) -> Result<(), Problem> {
        for stage in &self.stages {
            check_stage(stage, api)?;
        }
        match (&self.stages[..], &self.routes[..]) {
            ([], [route, ..]) => {
                let text = format!("{api} has no AWS::ApiGatewayV2::Stage, so nothing answers");
                Err(Problem::at(route.properties.line, text))
            }
            ([_, another, ..], _) => {
                let text = format!("the local stack knows one stage, and not {}", another.what);
                Err(Problem::at(another.properties.line, text))
            }
            _ => Ok(()),
        }
    }

    /// The function that a route leads to, and the route.
    fn read_route(&self, resource: &Resource, api: &str) -> Result<(String, Route), Problem> {
        let (what, properties) = (resource.what.as_str(), &resource.properties);
        properties.only(
            what,
            &["ApiId", "AuthorizationType", "AuthorizerId", "OperationName", "RouteKey", "Target"],
        )?;
        check_owner(resource, api)?;
        let key = properties.require("RouteKey", what)?;
        let text = key.as_text(&format!("RouteKey of {what}"))?;
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) if method != "ANY" && !path.contains(['{', '$']) => (method, path),
            _ => {
                let text = format!(
                    "the local stack knows routes of one method and a fixed path only, not {text}"
                );
                return Err(Problem::at(key.line, text));
            }
        };
        let target = properties.require("Target", what)?;
        let id = target.as_text(&format!("Target of {what}"))?.strip_prefix("integrations/");
        let integration = id.and_then(|id| self.integrations.iter().find(|known| known.id == id));
        let integration = integration.ok_or_else(|| {
            let text = format!("Target of {what} must be integrations/ and an integration here");
            Problem::at(target.line, text)
        })?;
        let route = Route {
            method: method.to_ascii_uppercase(),
            path: path.to_owned(),
            timeout: Self::timeout(integration, api)?,
            authorization: self.authorization(properties, what, api)?,
        };
        Ok((target_function(integration)?, route))
    }

    fn authorization(
        &self,
        properties: &Node,
        what: &str,
        api: &str,
    ) -> Result<Authorization, Problem> {
        let Some(kind) = properties.get("AuthorizationType") else {
            return Ok(Authorization::None);
        };
        match kind.as_text(&format!("AuthorizationType of {what}"))? {
            "NONE" => Ok(Authorization::None),
            "AWS_IAM" => Ok(Authorization::Iam),
            "JWT" => {
                let id = properties.require("AuthorizerId", what)?;
                let name = id.as_text(&format!("AuthorizerId of {what}"))?;
                let known = self.authorizers.iter().find(|known| known.id == name);
                let known = known.ok_or_else(|| {
                    let text = format!("AuthorizerId of {what} must be an authorizer here");
                    Problem::at(id.line, text)
                })?;
                Ok(Authorization::Jwt(jwt_authorizer(known, api)?))
            }
            other => {
                let text = format!(
                    "the local stack knows the AuthorizationType NONE, AWS_IAM and JWT, not \
                     {other}, at {what}"
                );
                Err(Problem::at(kind.line, text))
            }
        }
    }

    /// How long the API waits for the function of an integration.
    fn timeout(integration: &Resource, api: &str) -> Result<Duration, Problem> {
        let (what, properties) = (integration.what.as_str(), &integration.properties);
        properties.only(
            what,
            &[
                "ApiId",
                "Description",
                "IntegrationMethod",
                "IntegrationType",
                "IntegrationUri",
                "PayloadFormatVersion",
                "TimeoutInMillis",
            ],
        )?;
        check_owner(integration, api)?;
        for (name, known) in [("IntegrationType", "AWS_PROXY"), ("PayloadFormatVersion", "2.0")] {
            let node = properties.require(name, what)?;
            if node.as_text(&format!("{name} of {what}"))? != known {
                let text = format!("the local stack knows the {name} {known} only, at {what}");
                return Err(Problem::at(node.line, text));
            }
        }
        let millis = match properties.get("TimeoutInMillis") {
            Some(node) => node.as_number(&format!("TimeoutInMillis of {what}"))?,
            None => 30_000,
        };
        Ok(Duration::from_millis(millis.into()))
    }
}

/// Checks the API itself. Who may call it from pages of which origins, and by which name, is without effect here.
fn check_api(resource: &Resource) -> Result<(), Problem> {
    let (what, properties) = (resource.what.as_str(), &resource.properties);
    properties.only(
        what,
        &[
            "CorsConfiguration",
            "Description",
            "DisableExecuteApiEndpoint",
            "Name",
            "ProtocolType",
            "Tags",
        ],
    )?;
    let protocol = properties.require("ProtocolType", what)?;
    if protocol.as_text("ProtocolType")? != "HTTP" {
        let text = format!("the local stack knows the ProtocolType HTTP only, at {what}");
        return Err(Problem::at(protocol.line, text));
    }
    Ok(())
}

/// Checks a stage. Logs go to stderr and nothing limits the rate of requests, so what it says of these is without
/// effect here.
fn check_stage(resource: &Resource, api: &str) -> Result<(), Problem> {
    let (what, properties) = (resource.what.as_str(), &resource.properties);
    properties.only(
        what,
        &[
            "AccessLogSettings",
            "ApiId",
            "AutoDeploy",
            "DefaultRouteSettings",
            "Description",
            "RouteSettings",
            "StageName",
            "Tags",
        ],
    )?;
    check_owner(resource, api)?;
    let stage = properties.require("StageName", what)?;
    if stage.as_text("StageName")? != "$default" {
        let text = format!("the local stack knows the stage $default only, at {what}");
        return Err(Problem::at(stage.line, text));
    }
    let deploys = properties.get("AutoDeploy").map_or(Ok(false), |node| node.as_bool("AutoDeploy"));
    if !deploys? {
        let text = format!("{what} must have AutoDeploy, or its routes are never deployed");
        return Err(Problem::at(properties.line, text));
    }
    Ok(())
}

fn jwt_authorizer(resource: &Resource, api: &str) -> Result<JwtAuthorizer, Problem> {
    let (what, properties) = (resource.what.as_str(), &resource.properties);
    properties
        .only(what, &["ApiId", "AuthorizerType", "IdentitySource", "JwtConfiguration", "Name"])?;
    check_owner(resource, api)?;
    let kind = properties.require("AuthorizerType", what)?;
    let source = properties.require("IdentitySource", what)?;
    let from_header = match source.items(&format!("IdentitySource of {what}"))? {
        [one] => one.as_text("IdentitySource")?.eq_ignore_ascii_case(AUTHORIZATION_HEADER),
        _ => false,
    };
    if kind.as_text("AuthorizerType")? != "JWT" || !from_header {
        let text = format!(
            "the local stack knows authorizers of JSON Web Tokens in {AUTHORIZATION_HEADER} only, not {what}"
        );
        return Err(Problem::at(kind.line, text));
    }
    let configuration = properties.require("JwtConfiguration", what)?;
    let what = format!("JwtConfiguration of {what}");
    configuration.only(&what, &["Audience", "Issuer"])?;
    let issuer = configuration.require("Issuer", &what)?.as_text(&format!("Issuer of {what}"))?;
    let audiences = configuration.require("Audience", &what)?.items(&what)?.iter();
    let audiences = audiences.map(|node| node.as_text(&what).map(str::to_owned));
    let audiences = audiences.collect::<Result<Vec<_>, _>>()?;
    if issuer.is_empty() || audiences.iter().any(String::is_empty) {
        let text = format!("{what} needs an issuer and an audience");
        return Err(Problem::at(configuration.line, text));
    }
    Ok(JwtAuthorizer { issuer: issuer.to_owned(), audiences })
}

const AUTHORIZATION_HEADER: &str = "$request.header.Authorization";

/// One gateway serves one API, so everything must be of that API.
fn check_owner(resource: &Resource, api: &str) -> Result<(), Problem> {
    let (what, properties) = (resource.what.as_str(), &resource.properties);
    let owner = properties.require("ApiId", what)?;
    let name = owner.as_text(&format!("ApiId of {what}"))?;
    if name == api {
        return Ok(());
    }
    Err(Problem::at(owner.line, format!("ApiId of {what} is {name}, which is not the API here")))
}

fn target_function(integration: &Resource) -> Result<String, Problem> {
    let what = &integration.what;
    let uri = integration.properties.require("IntegrationUri", what)?;
    let function = function_of(uri.as_text(&format!("IntegrationUri of {what}"))?);
    function.map(str::to_owned).ok_or_else(|| {
        let text = format!("IntegrationUri of {what} must be !GetAtt Function.Arn");
        Problem::at(uri.line, text)
    })
}
